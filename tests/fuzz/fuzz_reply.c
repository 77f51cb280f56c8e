/* SPDX-License-Identifier: MIT */
/* fuzz_reply.c - any bytes as the answer of a server: replies or a refusal, and never more memory
 * than the limit of a reply allows. The first byte chooses how the rest is cut.
 *
 * Each reply is also read as that of a node of a cluster: as the map of its slots, and as an error
 * that sends us elsewhere. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "redis/cluster/slots.h"
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

static int count_node(const struct qn_slot_place *place, void *user)
{
    int *count = user;
    if (strlen(place->host) >= QN_SLOT_HOST_SIZE || place->port[0] == '\0') {
        abort();
    }
    return ++*count;
}

static void read_as_slots(const struct qn_reply *reply)
{
    static int16_t owners[QN_SLOT_COUNT];
    struct qn_slot_place place;
    int nodes = 0;
    const char *wrong = qn_slots_read(reply, owners, count_node, &nodes);
    for (size_t i = 0; wrong == NULL && i < QN_SLOT_COUNT; i++) {
        if (owners[i] < -1 || owners[i] >= QN_SLOT_NODES_MAX) {
            abort();
        }
    }
    if (qn_slots_advice(reply, &place) == QN_SLOT_MOVED && place.port[0] == '\0') {
        abort();
    }
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
            if (reply != NULL) {
                read_as_slots(reply);
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
