/* SPDX-License-Identifier: MIT */
/* service_dir.c - the directories of a service; see service_dir.h. */
#include "cli/service_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool qn_service_dir_find(const char *variable, char *ret_path, size_t size)
{
    const char *text = getenv(variable);
    if (text == NULL || text[0] != '/') {
        return false;
    }
    size_t length = strcspn(text, ":"); /* there may be several */
    return length < size && snprintf(ret_path, size, "%.*s", (int)length, text) > 0;
}

bool qn_service_dir_join(const char *variable, const char *name, char *ret_path, size_t size)
{
    char directory[4096];
    if (!qn_service_dir_find(variable, directory, sizeof directory)) {
        return false;
    }
    int used = snprintf(ret_path, size, "%s/%s", directory, name);
    return used > 0 && (size_t)used < size;
}
