/* SPDX-License-Identifier: MIT */
/* advisory.h - known holes of versions of the broker's server. */
#ifndef QN_CLI_VERBS_ADVISORY_H
#define QN_CLI_VERBS_ADVISORY_H

#include <stdbool.h>
#include <stddef.h>

/* version: as the broker reports it, "7.2.4" or "valkey 8.0.1". False: none is known; else why the
 * server should be updated, for people. */
bool qn_advisory_of(const char *version, char *text, size_t text_size);

#endif
