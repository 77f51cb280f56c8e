/* SPDX-License-Identifier: MIT */
/* settings.h - where spans are sent, by an option or by the variables of OpenTelemetry. */
#ifndef QN_CLI_OTLP_SETTINGS_H
#define QN_CLI_OTLP_SETTINGS_H

#include "base/memory/arena.h"
#include "quern/header.h"
#include "quern/status.h"

enum { QN_OTLP_PAIRS_MAX = 60 };

struct qn_otlp_pairs {
    quern_header items[QN_OTLP_PAIRS_MAX];
    size_t count;
};

/* Texts live in the arena, or in the environment. */
struct qn_otlp_settings {
    struct qn_arena arena;
    const char *url; /* of the signal: ".../v1/traces"; NULL: nothing is sent */
    struct qn_otlp_pairs headers;
    const char *certificate; /* of authorities; NULL: those of the system */
    const char *client_certificate;
    const char *client_key;
    int64_t timeout_ms; /* 0: not given */
    const char *service;
    struct qn_otlp_pairs resource;
    int32_t sample_ppm;  /* as in quern_tracer_options */
    const char *ignored; /* NULL, or why the environment's wish is not fulfilled */
};

/* option: the URL given on the command line, "none", or NULL; ratio: that given there, or NULL. The
 * option wins over the environment, which is read by the rules of OpenTelemetry; what it has wrong
 * is only an error with the option. QUERN_E_INVALID: the text names the option or variable. */
QUERN_NODISCARD quern_status qn_otlp_settings_read(const char *option, const char *ratio,
                                                   struct qn_otlp_settings *ret_settings,
                                                   quern_error *err);
void qn_otlp_settings_finish(struct qn_otlp_settings *settings);

#endif
