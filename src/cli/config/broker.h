/* SPDX-License-Identifier: MIT */
/* broker.h - the broker that the configuration names, by its URL or by a context:
 *
 *     [context prod]
 *     broker = rediss://worker@queue.example/0
 *     password-file = redis-password
 *     ca = ca.pem
 *
 * What a context has besides its broker are parameters of that URL. Paths are relative to the
 * directory of the file. */
#ifndef QN_CLI_CONFIG_BROKER_H
#define QN_CLI_CONFIG_BROKER_H

#include "cli/config/section.h"

/* NAME of "context NAME"; NULL: it is no section of a context. */
const char *qn_config_context_name(const char *section);
bool qn_config_broker_has_password(const char *url);
/* The URL of a context, a secret.h text of the caller. line: the one that names the context, for
 * the message; 0: no line of the file does. NULL: config->why has the reason. */
char *qn_config_broker_of(struct qn_config *config, const char *context, size_t line);
/* Sets cli->configured_url, unless something stronger names the broker. False: the same. */
QUERN_NODISCARD bool qn_config_broker_choose(struct qn_cli *cli);
/* Who has chosen it: the option and its source; for the file the line, too. */
struct qn_config_choice {
    enum qn_global option;
    enum qn_source source;
    const char *text; /* NULL: it is the default */
    size_t line;
};
struct qn_config_choice qn_config_broker_choice(const struct qn_cli *cli);

#endif
