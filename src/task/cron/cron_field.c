/* SPDX-License-Identifier: MIT */
/* cron_field.c - one field of a cron expression, as a set of bits.
 *
 * A field is a list of parts between commas, and an empty part counts as none, so "," is a field
 * that allows nothing. A part is RANGE or RANGE/STEP; a RANGE is "*", "?", a value or two values
 * with "-" between them. Some texts that look wrong are right to robfig/cron, which asynq uses, so
 * they are right here: "*-5" is "*", "+5" is 5, and what follows a "*" and a hyphen is not read. */
#include "task/cron/cron_field.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/decimal.h"
#include "task/name.h"

enum { NAME_SIZE = 3, FAULT_SIZE = 100, QUOTED_MAX = 20 };

static const struct place {
    const char *name;
    unsigned min;
    unsigned max;
    const char *values; /* names of three letters for min, min + 1, ...; NULL: none */
    const char *allowed;
} places[QN_CRON_PLACES] = {
    [QN_CRON_PLACE_SECOND] = {"second", 0, 59, NULL, "0-59"},
    [QN_CRON_PLACE_MINUTE] = {"minute", 0, 59, NULL, "0-59"},
    [QN_CRON_PLACE_HOUR] = {"hour", 0, 23, NULL, "0-23"},
    [QN_CRON_PLACE_DAY] = {"day of month", 1, 31, NULL, "1-31"},
    [QN_CRON_PLACE_MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec",
                             "1-12 or jan-dec"},
    [QN_CRON_PLACE_WEEKDAY] = {"day of week", 0, 6, "sunmontuewedthufrisat",
                               "0-6 or sun-sat, 0 is sunday"},
};

const char *qn_cron_field_name(enum qn_cron_place place)
{
    return places[place].name;
}

/* A part while it is read. */
struct part {
    const struct place *place;
    char *text;
    uint64_t first;
    uint64_t last;
    uint64_t step;
    bool is_star;
    char fault[FAULT_SIZE]; /* "": none */
};

static bool fail(struct part *part, const char *format, ...) QUERN_PRINTF(2, 3);

static bool fail(struct part *part, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(part->fault, sizeof part->fault, format, arguments); /* cut if it is long */
    va_end(arguments);
    return false;
}

/* As Go's strconv.Atoi, but never below 0. */
static bool read_number(struct part *part, const char *text, uint64_t *ret_value)
{
    const char *at = text[0] == '+' ? text + 1 : text;
    uint64_t value = 0;
    bool valid = *at != '\0';
    for (; valid && *at != '\0'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        valid = qn_decimal_is_digit(*at) && value <= (INT64_MAX - digit) / 10;
        value = valid ? value * 10 + digit : 0;
    }
    if (text[0] == '\0') {
        return fail(part, "a number is missing");
    }
    if (!valid) {
        char shown[QN_NAME_SHOWN_SIZE];
        return fail(part, "\"%.40s\" is not a number", qn_name_show(text, shown));
    }
    *ret_value = value;
    return true;
}

/* Lower case of ASCII; Go also takes the Turkish capital I with a dot for an i. */
static char read_letter(const char **at)
{
    unsigned char c = (unsigned char)**at;
    if (c == 0xc4 && (unsigned char)(*at)[1] == 0xb0) {
        *at += 2;
        return 'i';
    }
    *at += c == '\0' ? 0 : 1;
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static bool read_value(struct part *part, const char *text, uint64_t *ret_value)
{
    const char *names = part->place->values;
    const char *at = text;
    char name[NAME_SIZE];
    for (size_t i = 0; i < NAME_SIZE; i++) {
        name[i] = read_letter(&at);
    }
    for (size_t i = 0; names != NULL && *at == '\0' && names[i] != '\0'; i += NAME_SIZE) {
        if (memcmp(names + i, name, NAME_SIZE) == 0) {
            *ret_value = part->place->min + i / NAME_SIZE;
            return true;
        }
    }
    return read_number(part, text, ret_value);
}

/* "*", "5" or "1-5". Single: there is no hyphen. */
static bool read_range(struct part *part, char *text, bool *ret_single)
{
    char *hyphen = strchr(text, '-');
    *ret_single = hyphen == NULL;
    if (hyphen != NULL) {
        *hyphen = '\0';
    }
    if (strcmp(text, "*") == 0 || strcmp(text, "?") == 0) {
        part->is_star = true;
        part->first = part->place->min;
        part->last = part->place->max;
        return true;
    }
    if (!read_value(part, text, &part->first)) {
        return false;
    }
    part->last = part->first;
    if (hyphen == NULL) {
        return true;
    }
    if (strchr(hyphen + 1, '-') != NULL) {
        return fail(part, "more than one hyphen");
    }
    return read_value(part, hyphen + 1, &part->last);
}

static bool check_range(struct part *part)
{
    const struct place *place = part->place;
    if (part->first < place->min) {
        return fail(part, "%llu is below %u", (unsigned long long)part->first, place->min);
    }
    if (part->last > place->max) {
        return fail(part, "%llu is above %u", (unsigned long long)part->last, place->max);
    }
    if (part->first > part->last) {
        return fail(part, "the range ends before it begins; write two of them, with a comma");
    }
    if (part->step == 0) {
        return fail(part, "the step must be 1 or more");
    }
    return true;
}

/* RANGE or RANGE/STEP. */
static bool read_part(struct part *part)
{
    bool single;
    char *slash = strchr(part->text, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    part->step = 1;
    if (!read_range(part, part->text, &single)) {
        return false;
    }
    if (slash != NULL) {
        if (strchr(slash + 1, '/') != NULL) {
            return fail(part, "more than one slash");
        }
        if (!read_number(part, slash + 1, &part->step)) {
            return false;
        }
        if (single) {
            part->last = part->place->max; /* "5/20" is "5-59/20" */
        }
        if (part->step > 1) {
            part->is_star = false;
        }
    }
    return check_range(part);
}

static uint64_t bits_of(const struct part *part)
{
    uint64_t bits = part->is_star ? QN_CRON_STAR : 0;
    for (uint64_t value = part->first; value <= part->last; value += part->step) {
        bits |= UINT64_C(1) << value; /* a step is at most INT64_MAX: the sum does not overflow */
    }
    return bits;
}

quern_status qn_cron_field_parse(char *text, enum qn_cron_place place, uint64_t *ret_bits,
                                 quern_error *err)
{
    char shown[QN_NAME_SHOWN_SIZE];
    uint64_t bits = 0;
    char whole[QUOTED_MAX + 4]; /* its start, for the error: the text itself is cut up */
    (void)snprintf(whole, sizeof whole, "%.*s%s", QUOTED_MAX, text,
                   strlen(text) > QUOTED_MAX ? "..." : "");
    char *rest = NULL;
    for (char *item = strtok_r(text, ",", &rest); item != NULL; item = strtok_r(NULL, ",", &rest)) {
        struct part part = {.place = &places[place], .text = item};
        if (!read_part(&part)) {
            return qn_error_set(err, QUERN_E_INVALID, "%s \"%s\": %s; allowed: %s, *, a-b, */n",
                                places[place].name, qn_name_show(whole, shown), part.fault,
                                places[place].allowed);
        }
        bits |= bits_of(&part);
    }
    *ret_bits = bits;
    return QUERN_OK;
}
