/* SPDX-License-Identifier: MIT */
/* fuzz_reply.c - any bytes as the answer of a server: replies or a refusal, and never more memory
 * than the limit of a reply allows. The first byte chooses how the rest is cut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "redis/decode.h"

#define REPLY_SIZE_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte, so that the sanitizer sees each, and returns how much there is. */
static size_t weigh(const struct qn_reply *reply)
{
    if (reply == NULL || reply->data[reply->size] != '\0') {
        abort();
    }
    size_t sum = 1 + strlen(reply->data);
    for (size_t i = 0; i < reply->count; i++) {
        sum += weigh(reply->items[i]);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct qn_decoder decoder;
    struct qn_arena arena = {0};
    quern_error err = {0};
    size_t piece = data[0] == 0 ? size : data[0];
    quern_status status = qn_decode_init(&decoder, "redis://fuzz", &err);
    decoder.size_max = REPLY_SIZE_MAX;
    for (size_t at = 1; status == QUERN_OK && at < size; at += piece) {
        size_t count = size - at < piece ? size - at : piece;
        struct qn_reply *reply = NULL;
        status = qn_decode_feed(&decoder, (const char *)data + at, count, &err);
        do {
            reply = NULL;
            if (status == QUERN_OK) {
                status = qn_decode_next(&decoder, &arena, &reply, &err);
            }
            if (reply != NULL && weigh(reply) > size + REPLY_SIZE_MAX) {
                abort();
            }
        } while (status == QUERN_OK && reply != NULL);
    }
    if (status != QUERN_OK && err.text[0] == '\0') {
        abort();
    }
    qn_decode_finish(&decoder);
    qn_arena_finish(&arena);
    return 0;
}
