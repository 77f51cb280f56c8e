/* SPDX-License-Identifier: MIT */
/* file.c - see file.h.
 *
 * A file that was named must be there. One at a default place is used if it is: a directory that
 * may not be searched, as the home of another user, has none. */
#include "cli/config/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/str.h"
#include "base/trusted_file.h"
#include "cli/memory.h"
#include "cli/service_dir.h"

#define NAME "quern.conf"
#define PATH_SIZE_MAX 4096

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static char *copy_if_there(const char *path)
{
    return is_there(path) ? qn_memory_must(qn_str_dup(path)) : NULL;
}

static char *find_default(void)
{
    char path[PATH_SIZE_MAX];
    const char *config_home = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (qn_service_dir_join("CONFIGURATION_DIRECTORY", NAME, path, sizeof path) && is_there(path)) {
        return qn_memory_must(qn_str_dup(path));
    }
    int size = -1;
    if (config_home != NULL && config_home[0] == '/') {
        size = snprintf(path, sizeof path, "%s/quern/" NAME, config_home);
    } else if (home != NULL && home[0] == '/') {
        size = snprintf(path, sizeof path, "%s/.config/quern/" NAME, home);
    }
    return size > 0 && (size_t)size < sizeof path ? copy_if_there(path) : NULL;
}

/* A name that is not here may be one in the directory of the service manager. */
static char *find_named(const char *name)
{
    char path[PATH_SIZE_MAX];
    bool is_configured = name[0] != '/' && !is_there(name) &&
                         qn_service_dir_join("CONFIGURATION_DIRECTORY", name, path, sizeof path) &&
                         is_there(path);
    return qn_memory_must(qn_str_dup(is_configured ? path : name));
}

char *qn_config_file_find(const char *given)
{
    const char *named = given != NULL ? given : getenv("QUERN_CONFIG");
    if (named == NULL) {
        return find_default();
    }
    return named[0] == '\0' ? NULL : find_named(named);
}

char *qn_config_file_read(const char *path, bool is_secret, size_t *ret_size,
                          char why[QN_CONFIG_WHY_SIZE])
{
    const size_t room = QN_CONFIG_SIZE_MAX + 2; /* one byte more than allowed, and a NUL */
    char *text = qn_memory_must(qn_secret_alloc(room));
    const char *wrong = qn_trusted_file_read(path, is_secret, text, room, ret_size);
    if (wrong == NULL && *ret_size <= QN_CONFIG_SIZE_MAX) {
        return text;
    }
    qn_secret_free(text);
    if (wrong != NULL) {
        (void)snprintf(why, QN_CONFIG_WHY_SIZE, "%s%s: %s", path,
                       is_secret ? ": it has a password" : "", wrong);
    } else {
        (void)snprintf(why, QN_CONFIG_WHY_SIZE, "%s has more than %zu bytes", path,
                       QN_CONFIG_SIZE_MAX);
    }
    return NULL;
}
