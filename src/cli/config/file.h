/* SPDX-License-Identifier: MIT */
/* file.h - the file of the configuration: where it is, and its text. */
#ifndef QN_CLI_CONFIG_FILE_H
#define QN_CLI_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define QN_CONFIG_SIZE_MAX ((size_t)256 << 10)
#define QN_CONFIG_WHY_SIZE 1024

/* `given` (of --config; NULL: not given), else QUERN_CONFIG, else quern.conf in the directory that
 * a service manager has for configuration, or in that of the user, if it is there. NULL: no file is
 * used. The caller's. */
char *qn_config_file_find(const char *given);
/* Its text with a NUL behind it, a secret.h text of the caller. NULL: why has the reason, with the
 * path. is_secret: it has a password, so other users may not read it either. */
char *qn_config_file_read(const char *path, bool is_secret, size_t *ret_size,
                          char why[QN_CONFIG_WHY_SIZE]);

#endif
