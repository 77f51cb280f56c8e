/* SPDX-License-Identifier: MIT */
/* url_list.c - takes a list of URLs apart. */
#include "broker/url/url_list.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/secret.h"
#include "broker/url/url_advice.h"
#include "broker/url/url_spelling.h"

bool qn_url_list_is_redis(const struct qn_url *url)
{
    static const char *const schemes[] = {"redis",          "rediss",          "redis-socket",
                                          "redis-sentinel", "rediss-sentinel", "redis-cluster",
                                          "rediss-cluster"};
    size_t i = 0;
    while (i < sizeof schemes / sizeof *schemes && strcmp(url->scheme, schemes[i]) != 0) {
        i++;
    }
    return i < sizeof schemes / sizeof *schemes;
}

static quern_status add_url(struct qn_url_list *list, const char *text, quern_error *err)
{
    if (list->count == QN_URL_LIST_MAX) {
        return qn_error_set(err, QUERN_E_INVALID, "the broker is a list of more than %d URLs",
                            QN_URL_LIST_MAX);
    }
    struct qn_url *url = &list->urls[list->count];
    quern_status status = qn_url_parse(text, url, err);
    if (status != QUERN_OK) {
        return status;
    }
    list->count++;
    qn_url_spelling_resolve(url);
    status = qn_url_advice(url, err);
    return status == QUERN_OK && !qn_url_list_is_redis(url)
               ? qn_error_set(err, QUERN_E_INVALID,
                              "a list of broker URLs holds only Redis servers, not %s://",
                              url->scheme)
               : status;
}

quern_status qn_url_list_init(struct qn_url_list *list, const char *text, quern_error *err)
{
    char *copy = qn_secret_strdup(text); /* it may hold passwords */
    quern_status status = copy == NULL ? qn_error_nomem(err) : QUERN_OK;
    list->count = 0;
    for (char *at = copy; status == QUERN_OK && at != NULL;) {
        const char *behind = qn_url_next(at);
        char *next = behind == NULL ? NULL : at + (behind - at);
        if (next != NULL) {
            next[-1] = '\0';
        }
        status = add_url(list, at, err);
        at = next;
    }
    qn_secret_free(copy);
    if (status != QUERN_OK) {
        qn_url_list_finish(list);
    }
    return status;
}

void qn_url_list_finish(struct qn_url_list *list)
{
    while (list->count > 0) {
        qn_url_finish(&list->urls[--list->count]);
    }
}
