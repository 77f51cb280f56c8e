/* SPDX-License-Identifier: MIT */
/* url_retry.c - reads it, without the broker: that is needed when it cannot be opened. */
#include "broker/url/url_retry.h"

#include "base/memory/secret.h"
#include "broker/url/url_list.h"
#include "broker/url/url_spelling.h"
#include "redis/failover/url_params.h"

struct qn_pace qn_url_retry(const char *url)
{
    struct qn_url_params params = {0};
    struct qn_url first = {0};
    char *copy = qn_url_spelling_is_server(url) ? qn_secret_strdup(url) : NULL;
    if (copy == NULL) {
        return params.pace;
    }
    const char *behind = qn_url_next(copy);
    if (behind != NULL) {
        copy[behind - copy - 1] = '\0';
    }
    if (qn_url_parse(copy, &first, NULL) == QUERN_OK) {
        quern_status status = qn_url_params_read(&first, 1, &params, NULL);
        (void)status; /* it leaves them as they are */
        qn_url_finish(&first);
    }
    qn_secret_free(copy);
    return params.pace;
}
