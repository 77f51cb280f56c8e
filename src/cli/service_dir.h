/* SPDX-License-Identifier: MIT */
/* service_dir.h - the directories that a service manager has made for this process. */
#ifndef QN_CLI_SERVICE_DIR_H
#define QN_CLI_SERVICE_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* The first directory of STATE_DIRECTORY, RUNTIME_DIRECTORY or CONFIGURATION_DIRECTORY. False:
 * there is none, or it is too long. */
bool qn_service_dir_find(const char *variable, char *ret_path, size_t size);
/* name in that directory. False: the same. */
bool qn_service_dir_join(const char *variable, const char *name, char *ret_path, size_t size);

#endif
