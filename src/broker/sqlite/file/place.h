/* SPDX-License-Identifier: MIT */
/* place.h - checks which other users could change the file, or the files beside it. */
#ifndef QN_BROKER_SQLITE_FILE_PLACE_H
#define QN_BROKER_SQLITE_FILE_PLACE_H

#include <sys/stat.h>

#include "broker/sqlite/sqlite.h"

/* Refuses a file that others could change; there may be none yet. */
QUERN_NODISCARD quern_status qn_sqlite_place_check(const char *path, bool trust_owner,
                                                   quern_error *err);
/* The path as the text of an error may name it in a URL: "/PATH" for a long or odd one. */
const char *qn_sqlite_place_shown(const char *path);
/* True: the text names the other users that may write to the file, although that is allowed. */
bool qn_sqlite_place_warning(const struct qn_sqlite *self, char *out, size_t out_size);
uid_t qn_sqlite_place_owner(const struct qn_sqlite *self);
/* Whether sockets in this directory belong to users that we trust. */
bool qn_sqlite_place_trusts(const struct qn_sqlite *self, const struct stat *directory);

#endif
