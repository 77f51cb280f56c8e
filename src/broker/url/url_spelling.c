/* SPDX-License-Identifier: MIT */
/* url_spelling.c - broker URLs as other libraries write them.
 *
 * Only what means exactly the same is understood; what does not is refused with the right spelling
 * (url_advice.c, and redis/url/tls_params.c for parameters of TLS). */
#include "broker/url/url_spelling.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *theirs;
    const char *ours;
} schemes[] = {
    {"valkey", "redis"},
    {"valkeys", "rediss"},
    {"unix", "redis-socket"},
    {"redis+socket", "redis-socket"},
    {"redis+unix", "redis-socket"},
};

void qn_url_spelling_resolve(struct qn_url *url)
{
    bool is_theirs = false;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (strcmp(url->scheme, schemes[i].theirs) == 0) {
            url->scheme = schemes[i].ours;
            is_theirs = true;
            break;
        }
    }
    for (size_t i = 0; is_theirs && i < url->param_count; i++) {
        if (strcmp(url->params[i].name, "virtual_host") == 0) { /* Kombu, with a socket */
            url->params[i].name = "db";
        }
    }
}

/* "redis..." and the others, each up to "://". A file may be named redis.db. */
bool qn_url_spelling_is_server(const char *text)
{
    static const char *const starts[] = {"redis", "valkey", "unix:", "sentinel:"};
    if (text == NULL || strstr(text, "://") == NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        if (strncasecmp(text, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return false;
}
