/* SPDX-License-Identifier: MIT */
/* otlp.h - the tracer of the program: spans of its worker or client, sent to a collector. */
#ifndef QN_CLI_OTLP_OTLP_H
#define QN_CLI_OTLP_OTLP_H

#include "cli/cli.h"
#include "quern/trace.h"

struct qn_otlp;

/* clang-format off */
#define QN_OTLP_OPTIONS(first)                                                                     \
    [(first)] = {"otlp", "URL", "send spans to this collector (OTLP/HTTP); none: do not",          \
                 QN_OPTION_TEXT, .unlisted = true},                                                \
    [(first) + 1] = {"trace-ratio", "R", "record this part of new traces, 0 to 1 (1)",             \
                     QN_OPTION_TEXT, .unlisted = true}
/* clang-format on */
#define QN_OTLP_OPTION_COUNT 2

/* By the two options at `first`, else by the environment. *ret_otlp is NULL where no spans are
 * wanted. Lines go to on_log with `user`, from another thread; NULL: warnings are messages. Reports
 * its errors, returns the exit code. */
QUERN_NODISCARD int qn_otlp_open(const struct qn_cli *cli, size_t first,
                                 void (*on_log)(quern_log_level level, const char *line,
                                                void *user),
                                 void *user, struct qn_otlp **ret_otlp);
/* NULL of NULL. */
quern_tracer *qn_otlp_tracer(const struct qn_otlp *otlp);
/* Sends what waits, for 2 s at most. NULL is allowed. */
void qn_otlp_close(struct qn_otlp *otlp);

#endif
