/* SPDX-License-Identifier: MIT */
/* advisory.c - the table of the versions that mended a hole. It is a part of the program and not of
 * the library, since it ages faster. */
#include "cli/verbs/advisory.h"

#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "cli/cli.h"

struct version {
    int major;
    int minor;
    int patch;
};

/* The first version of each series that has fixed CVE-2025-49844: before it every user that can
 * run Lua, as all that may enqueue, could leave its sandbox. */
static const struct version redis_fixes[] = {
    {6, 2, 20}, {7, 2, 11}, {7, 4, 6}, {8, 0, 4}, {8, 2, 2}};
static const struct version valkey_fixes[] = {{7, 2, 11}, {8, 0, 6}, {8, 1, 4}};

static bool is_older(const struct version *version, const struct version *fixes, size_t count)
{
    bool newer = true; /* than all series that were fixed */
    for (size_t i = 0; i < count; i++) {
        const struct version *fix = &fixes[i];
        if (fix->major == version->major && fix->minor == version->minor) {
            return version->patch < fix->patch;
        }
        newer = newer && (version->major > fix->major ||
                          (version->major == fix->major && version->minor > fix->minor));
    }
    return !newer;
}

bool qn_advisory_of(const char *version, char *text, size_t text_size)
{
    struct version parts = {0};
    bool valkey = qn_str_starts_with(version, "valkey ");
    if (sscanf(valkey ? version + strlen("valkey ") : version, "%d.%d.%d", &parts.major,
               &parts.minor, &parts.patch) != 3 ||
        !is_older(&parts, valkey ? valkey_fixes : redis_fixes,
                  valkey ? QN_COUNT_OF(valkey_fixes) : QN_COUNT_OF(redis_fixes))) {
        return false;
    }
    (void)snprintf(text, text_size,
                   "version %s has the vulnerability CVE-2025-49844 (Lua), unless your "
                   "distribution has fixed it: update the server",
                   version);
    return true;
}
