/* SPDX-License-Identifier: MIT */
/* broker_secret.c - where the password of a broker comes from, and that nobody else sees it.
 *
 * A URL on the command line can be read by everybody with ps: it is copied, and the password in it
 * is overwritten with stars at once. Better is a file (?password_file=, read by the library) or a
 * variable of the environment (?password_env=NAME), which is read here, as the library reads none:
 * its value is put into the URL where a password belongs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

#define URL_SIZE_MAX 65536
#define PARAM "password_env="

/* The first such parameter of the URL; NULL: there is none, or it is not for Redis. */
static const char *find_param(const char *url)
{
    if (!qn_str_starts_with(url, "redis")) {
        return NULL;
    }
    for (const char *at = strchr(url, '?'); at != NULL; at = strchr(at, '&')) {
        at++;
        if (qn_str_starts_with(at, PARAM)) {
            return at;
        }
    }
    return NULL;
}

static void append(struct qn_buf *buf, const char *data, size_t size)
{
    if (qn_buf_append(buf, data, size) != QUERN_OK) {
        qn_cli_nomem();
    }
}

static void append_encoded(struct qn_buf *buf, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        char encoded[3] = {'%', hex[c >> 4], hex[c & 15]};
        append(buf, encoded, sizeof encoded);
    }
}

/* The URL with `password`, without the parameter; wants a URL with "://" and no password. */
static char *insert_password(const char *url, const char *param, const char *password)
{
    struct qn_buf buf;
    const char *authority = strstr(url, "://") + 3;
    const char *rest = authority + strcspn(authority, "/?@");
    qn_buf_init(&buf, URL_SIZE_MAX + 3 * strlen(password));
    append(&buf, url, *rest == '@' ? (size_t)(rest - url) : (size_t)(authority - url));
    append(&buf, ":", 1);
    append_encoded(&buf, password);
    append(&buf, "@", 1);
    const char *host = *rest == '@' ? rest + 1 : authority;
    append(&buf, host, (size_t)(param - host));
    const char *behind = param + strcspn(param, "&");
    append(&buf, behind, strlen(behind));
    char *made = qn_cli_must(qn_strdup(qn_buf_text(&buf)));
    explicit_bzero(buf.data, buf.size);
    qn_buf_finish(&buf);
    return made;
}

int qn_cli_url_with_password(const struct qn_cli *cli, const char *url, char **ret_url)
{
    const char *param = find_param(url);
    const char *authority = strstr(url, "://");
    if (param == NULL || authority == NULL || param < authority || strlen(url) > URL_SIZE_MAX) {
        *ret_url = qn_cli_must(qn_strdup(url)); /* what is wrong with it, the library says */
        return QN_EXIT_OK;
    }
    authority += 3;
    const char *sign = memchr(authority, '@', (size_t)(param - authority));
    if (sign != NULL && memchr(authority, ':', (size_t)(sign - authority)) != NULL) {
        qn_cli_say(cli, "the broker URL has a password and a password_env");
        return QN_EXIT_CONFIG;
    }
    const char *value = param + strlen(PARAM);
    char *name = qn_cli_must(qn_strdup(value));
    name[strcspn(name, "&")] = '\0';
    const char *password = getenv(name);
    int exit_code = QN_EXIT_OK;
    if (password == NULL || password[0] == '\0') {
        qn_cli_say(cli, "password_env: there is no %s in the environment", name);
        exit_code = QN_EXIT_CONFIG;
    } else {
        *ret_url = insert_password(url, param, password);
    }
    qn_free(name);
    return exit_code;
}

/* As qn_url_redact: from the first colon of the authority to the last @. */
static void star_out(char *url)
{
    char *authority = strstr(url, "://");
    char *sign = authority == NULL ? NULL : strrchr(authority, '@');
    char *colon = sign == NULL ? NULL : memchr(authority + 3, ':', (size_t)(sign - authority - 3));
    if (colon != NULL) {
        memset(colon + 1, '*', (size_t)(sign - colon - 1));
    }
}

int qn_cli_take_broker_option(struct qn_cli *cli)
{
    const char *given = cli->args.globals[QN_GLOBAL_BROKER].text;
    if (given == NULL) {
        return QN_EXIT_OK;
    }
    int exit_code = qn_cli_url_with_password(cli, given, &cli->given_url);
    if (exit_code == QN_EXIT_OK) {
        star_out((char *)(uintptr_t)given); /* a part of argv, which is ours to write */
        cli->args.globals[QN_GLOBAL_BROKER].text = cli->given_url;
    }
    return exit_code;
}
