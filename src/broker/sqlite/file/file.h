/* SPDX-License-Identifier: MIT */
/* file.h - the path of a database: is it a place where one may live? */
#ifndef QN_BROKER_SQLITE_FILE_FILE_H
#define QN_BROKER_SQLITE_FILE_FILE_H

#include "broker/sqlite/sqlite.h"

/* Resolves self's path, checks directory, owners and file system, creates the file (0600) if
 * requested. unsafe_fs and trust_owner are set. */
QUERN_NODISCARD quern_status qn_sqlite_file_prepare(struct qn_sqlite *self, const char *path,
                                                    bool create, quern_error *err);

#endif
