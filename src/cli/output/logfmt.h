/* SPDX-License-Identifier: MIT */
/* logfmt.h - reads the lines that base/log.h writes, field by field. */
#ifndef QN_CLI_OUTPUT_LOGFMT_H
#define QN_CLI_OUTPUT_LOGFMT_H

#include <stdbool.h>

struct qn_logfmt_field {
    char *name; /* both owned; freed by the caller with qn_free */
    char *value;
    bool is_number;
};

/* Takes the first field at *at, and moves *at behind it. False: there is none. */
bool qn_logfmt_next(const char **at, struct qn_logfmt_field *ret_field);

#endif
