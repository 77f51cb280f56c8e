/* SPDX-License-Identifier: MIT */
/* zone.c - reads TZif, and looks offsets up.
 *
 * A file has a block with moments of 32 bits and, since version 2, one with moments of 64 bits and
 * a last line with the rule for all moments behind its table; then the first block is skipped.
 * Every count is checked against the bytes that are there before anything is allocated, and nothing
 * but offsets is kept: no names, no indicators. */
#include "base/time/zone.h"

#include <stdbool.h>
#include <string.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/time/zone_rule.h"

enum {
    HEADER_SIZE = 44,
    TYPE_SIZE = 6,
    TYPES_MAX = 256,
    /* The borders of RFC 8536, 3.2. */
    OFFSET_S_MIN = -89999,
    OFFSET_S_MAX = 93599
};

struct change {
    int64_t at_s;
    int32_t offset_s; /* from then on */
};

struct qn_zone {
    int32_t first_offset_s; /* before the first change */
    bool has_rule;
    struct qn_zone_rule rule; /* behind the last change, or always where there is none */
    size_t change_count;
    struct change changes[];
};

/* One of the two blocks. */
struct block {
    size_t time_size; /* of a moment: 4 or 8 */
    uint32_t utc_count;
    uint32_t standard_count;
    uint32_t leap_count;
    uint32_t change_count;
    uint32_t type_count;
    uint32_t char_count;
    const uint8_t *moments;
    const uint8_t *types; /* of the changes */
    const uint8_t *type_table;
};

/* The bytes that are not read yet. */
struct input {
    const uint8_t *at;
    size_t left;
};

static quern_status refuse(quern_error *err, const char *fault)
{
    return qn_error_set(err, QUERN_E_CORRUPT, "%s", fault);
}

static uint64_t read_be(const uint8_t *at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

static int32_t read_be32(const uint8_t *at)
{
    return (int32_t)(uint32_t)read_be(at, 4);
}

static int64_t read_moment(const struct block *block, uint32_t index)
{
    const uint8_t *at = block->moments + index * block->time_size;
    return block->time_size == 8 ? (int64_t)read_be(at, 8) : read_be32(at);
}

/* NULL: there are not so many bytes left. */
static const uint8_t *take(struct input *input, size_t count, size_t size)
{
    const uint8_t *at = input->at;
    if (count > input->left / size) {
        return NULL;
    }
    input->at += count * size;
    input->left -= count * size;
    return at;
}

static quern_status read_header(struct input *input, struct block *block, char *ret_version,
                                quern_error *err)
{
    const uint8_t *header = take(input, 1, HEADER_SIZE);
    if (header == NULL || memcmp(header, "TZif", 4) != 0) {
        return refuse(err, "is not a TZif file");
    }
    char version = (char)header[4];
    if (version != '\0' && (version < '2' || version > '4')) {
        return refuse(err, "is a TZif file of an unknown version; 1 to 4 are known");
    }
    block->utc_count = (uint32_t)read_be(header + 20, 4);
    block->standard_count = (uint32_t)read_be(header + 24, 4);
    block->leap_count = (uint32_t)read_be(header + 28, 4);
    block->change_count = (uint32_t)read_be(header + 32, 4);
    block->type_count = (uint32_t)read_be(header + 36, 4);
    block->char_count = (uint32_t)read_be(header + 40, 4);
    *ret_version = version;
    return QUERN_OK;
}

/* Takes all bytes of the block and remembers where those are that are needed. */
static quern_status read_arrays(struct input *input, struct block *block, quern_error *err)
{
    block->moments = take(input, block->change_count, block->time_size);
    block->types = block->moments == NULL ? NULL : take(input, block->change_count, 1);
    block->type_table = block->types == NULL ? NULL : take(input, block->type_count, TYPE_SIZE);
    if (block->type_table == NULL || take(input, block->char_count, 1) == NULL ||
        take(input, block->leap_count, block->time_size + 4) == NULL ||
        take(input, block->standard_count, 1) == NULL || take(input, block->utc_count, 1) == NULL) {
        return refuse(err, "is damaged: it ends before the data that its header announces");
    }
    return QUERN_OK;
}

static quern_status check_block(const struct block *block, quern_error *err)
{
    if (block->leap_count != 0) {
        return refuse(err, "counts leap seconds, which the system's time does not");
    }
    if (block->type_count == 0 || block->type_count > TYPES_MAX) {
        return refuse(err, "is damaged: its number of local time types is not 1 to 256");
    }
    if (block->change_count > QN_ZONE_CHANGES_MAX) {
        return qn_error_set(err, QUERN_E_CORRUPT, "has %u changes; at most %d are allowed",
                            block->change_count, QN_ZONE_CHANGES_MAX);
    }
    for (uint32_t i = 0; i < block->type_count; i++) {
        int32_t offset_s = read_be32(block->type_table + (size_t)i * TYPE_SIZE);
        if (offset_s < OFFSET_S_MIN || offset_s > OFFSET_S_MAX) {
            return qn_error_set(err, QUERN_E_CORRUPT,
                                "is damaged: an offset of %d seconds from UTC", offset_s);
        }
    }
    for (uint32_t i = 0; i < block->change_count; i++) {
        if (block->types[i] >= block->type_count) {
            return qn_error_set(err, QUERN_E_CORRUPT,
                                "is damaged: change %u is to a type that is not there", i + 1);
        }
        if (i > 0 && read_moment(block, i) <= read_moment(block, i - 1)) {
            return qn_error_set(err, QUERN_E_CORRUPT,
                                "is damaged: change %u is not later than the one before", i + 1);
        }
    }
    return QUERN_OK;
}

/* "\nRULE\n"; an empty rule is none. */
static quern_status read_rule(const struct input *input, struct qn_zone_rule *ret_rule,
                              bool *ret_has_rule, quern_error *err)
{
    const char *text = (const char *)input->at;
    const char *end =
        input->left < 2 || text[0] != '\n' ? NULL : memchr(text + 1, '\n', input->left - 1);
    if (end == NULL) {
        return refuse(err, "is damaged: it ends before the rule for later years");
    }
    struct qn_bytes rule = {.data = text + 1, .size = (size_t)(end - text - 1)};
    *ret_has_rule = rule.size > 0;
    if (rule.size > 0 && !qn_zone_rule_parse(rule, ret_rule)) {
        return refuse(err, "is damaged: its rule for later years cannot be read");
    }
    return QUERN_OK;
}

static struct qn_zone *make_zone(const struct block *block)
{
    struct qn_zone *zone =
        qn_alloc_zero(1, sizeof *zone + block->change_count * sizeof zone->changes[0]);
    if (zone == NULL) {
        return NULL;
    }
    zone->first_offset_s = read_be32(block->type_table);
    zone->change_count = block->change_count;
    for (uint32_t i = 0; i < block->change_count; i++) {
        const uint8_t *type = block->type_table + (size_t)block->types[i] * TYPE_SIZE;
        zone->changes[i] =
            (struct change){.at_s = read_moment(block, i), .offset_s = read_be32(type)};
    }
    return zone;
}

quern_status qn_zone_parse(struct qn_bytes file, struct qn_zone **ret_zone, quern_error *err)
{
    struct input input = {.at = file.data, .left = file.size};
    struct block block = {.time_size = 4};
    struct qn_zone_rule rule = {0};
    bool has_rule = false;
    char version;
    quern_status status = read_header(&input, &block, &version, err);
    if (status == QUERN_OK) {
        status = read_arrays(&input, &block, err);
    }
    if (status == QUERN_OK && version != '\0') {
        block.time_size = 8;
        status = read_header(&input, &block, &version, err);
        if (status == QUERN_OK) {
            status = read_arrays(&input, &block, err);
        }
        if (status == QUERN_OK) {
            status = read_rule(&input, &rule, &has_rule, err);
        }
    }
    if (status == QUERN_OK) {
        status = check_block(&block, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    struct qn_zone *zone = make_zone(&block);
    if (zone == NULL) {
        return qn_error_nomem(err);
    }
    zone->rule = rule;
    zone->has_rule = has_rule;
    *ret_zone = zone;
    return QUERN_OK;
}

void qn_zone_free(struct qn_zone *zone)
{
    qn_free(zone);
}

int32_t qn_zone_offset(const struct qn_zone *zone, int64_t at_s)
{
    if (zone == NULL) {
        return 0;
    }
    size_t before = 0; /* so many changes are known to be at or before the moment */
    size_t end = zone->change_count;
    while (before < end) {
        size_t middle = before + (end - before) / 2;
        if (zone->changes[middle].at_s <= at_s) {
            before = middle + 1;
        } else {
            end = middle;
        }
    }
    if (before == zone->change_count && zone->has_rule && !QN_BUG(ZONE_RULE_IGNORED)) {
        return qn_zone_rule_offset(&zone->rule, at_s);
    }
    return before == 0 ? zone->first_offset_s : zone->changes[before - 1].offset_s;
}

void qn_zone_to_civil(const struct qn_zone *zone, int64_t at_s, struct qn_civil *ret_civil)
{
    qn_civil_from_seconds(at_s + qn_zone_offset(zone, at_s), ret_civil);
}

int64_t qn_zone_from_civil(const struct qn_zone *zone, const struct qn_civil *civil)
{
    int64_t local_s = qn_civil_to_seconds(civil);
    int64_t guess_s = local_s - qn_zone_offset(zone, local_s);
    return local_s - qn_zone_offset(zone, guess_s);
}
