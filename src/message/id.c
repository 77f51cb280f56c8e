/* SPDX-License-Identifier: MIT */
/* id.c - UUIDv7: 48 bits of milliseconds, 12 bits that count, 62 random bits.
 *
 * In a new millisecond the counter starts at a random number in its lower half; within one, and
 * when the clock has stepped back, it counts on. When it overflows, the time in the id runs ahead
 * of the clock by a millisecond. So every id of one source is greater than the one before. */
#include "message/id.h"

#include <stdbool.h>

#include "base/assert.h"

#define COUNTER_MAX 0xfffu
#define COUNTER_START_BELOW 0x800u
#define TIME_MS_MAX ((INT64_C(1) << 48) - 1)

void qn_id_source_init(struct qn_id_source *source)
{
    *source = (struct qn_id_source){.last_ms = -1};
    qn_random_init(&source->random);
}

static bool is_dash_at(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

static void write_text(const unsigned char bytes[16], char out[QN_ID_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    char *at = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *at++ = '-';
        }
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 0xf];
    }
    *at++ = '\0';
    QN_ASSERT(at == out + QN_ID_TEXT_SIZE);
}

void qn_id_next(struct qn_id_source *source, int64_t wall_ms, char out[QN_ID_TEXT_SIZE])
{
    if (wall_ms > source->last_ms && wall_ms <= TIME_MS_MAX) {
        source->last_ms = wall_ms;
        source->counter = (uint32_t)qn_random_below(&source->random, COUNTER_START_BELOW);
    } else if (source->last_ms < 0) {
        source->last_ms = 0; /* a clock that is before 1970 */
    } else if (source->counter < COUNTER_MAX) {
        source->counter++;
    } else {
        source->last_ms++;
        source->counter = 0;
    }
    uint64_t random = qn_random_next(&source->random);
    unsigned char bytes[16];
    for (int i = 0; i < 6; i++) {
        bytes[i] = (unsigned char)((uint64_t)source->last_ms >> (40 - 8 * i));
    }
    bytes[6] = (unsigned char)(0x70u | source->counter >> 8); /* version 7 */
    bytes[7] = (unsigned char)(source->counter & 0xffu);
    bytes[8] = (unsigned char)(0x80u | (random & 0x3fu)); /* the variant of the RFC */
    for (int i = 9; i < 16; i++) {
        bytes[i] = (unsigned char)(random >> (8 * (i - 8)));
    }
    write_text(bytes, out);
}

size_t qn_id_uuid_size(const char *text)
{
    size_t size = 0;
    for (; text[size] != '\0'; size++) {
        bool digit =
            (text[size] >= '0' && text[size] <= '9') || (text[size] >= 'a' && text[size] <= 'f');
        if (size >= QN_ID_TEXT_SIZE - 1 || (is_dash_at(size) ? text[size] != '-' : !digit)) {
            return 0;
        }
    }
    return size;
}
