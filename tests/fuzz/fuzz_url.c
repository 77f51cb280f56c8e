/* SPDX-License-Identifier: MIT */
/* fuzz_url.c - any text as broker URL: parsed or refused, redacted, and no password in an error. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

/* Reads every piece, so that the sanitizer sees each byte of it. */
static size_t read_pieces(const struct qn_url *url)
{
    size_t sum = strlen(url->scheme) + strlen(url->user) + strlen(url->password) +
                 strlen(url->host) + strlen(url->port) + strlen(url->path);
    for (size_t i = 0; i < url->param_count; i++) {
        sum += strlen(url->params[i].name) + strlen(url->params[i].value);
        require(qn_url_param(url, url->params[i].name) == url->params[i].value);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    struct qn_url url;
    quern_error err = {0};
    if (qn_url_parse(text, &url, &err) == QUERN_OK) {
        require(read_pieces(&url) <= size);
        qn_url_finish(&url);
    } else {
        require(err.text[0] != '\0');
    }
    char shown[64];
    qn_url_redact(text, shown, 1 + size % sizeof shown);
    require(strlen(shown) <= size % sizeof shown);
    free(text);
    return 0;
}
