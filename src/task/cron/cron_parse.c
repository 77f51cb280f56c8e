/* SPDX-License-Identifier: MIT */
/* cron_parse.c - reads a cron expression: its time zone, then a descriptor or the fields.
 *
 * Whatever robfig/cron's standard parser accepts is accepted and means the same; texts on which it
 * panics are refused. White space is Unicode's between fields, but one blank behind a time zone. */
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "task/cron/cron.h"
#include "task/cron/cron_every.h"
#include "task/cron/cron_field.h"
#include "task/limits.h"
#include "task/name.h"

static const struct {
    const char *name;
    const char *fields[QN_CRON_PLACES];
} descriptors[] = {
    {"@yearly", {"0", "0", "0", "1", "1", "*"}},  {"@annually", {"0", "0", "0", "1", "1", "*"}},
    {"@monthly", {"0", "0", "0", "1", "*", "*"}}, {"@weekly", {"0", "0", "0", "*", "*", "0"}},
    {"@daily", {"0", "0", "0", "*", "*", "*"}},   {"@midnight", {"0", "0", "0", "*", "*", "*"}},
    {"@hourly", {"0", "0", "*", "*", "*", "*"}},
};

/* The size of the white space at the start; 0: there is none. */
static size_t space_size(const char *text)
{
    uint32_t code;
    size_t size = *text == '\0' ? 0 : qn_utf8_at(text, &code);
    return size > 0 && qn_utf8_is_space(code) ? size : 0;
}

static char *skip_space(char *text)
{
    for (size_t size = space_size(text); size > 0; size = space_size(text)) {
        text += size;
    }
    return text;
}

/* Ends the word at *at and moves on behind it; NULL: there is no more. */
static char *take_word(char **at)
{
    char *word = skip_space(*at);
    if (*word == '\0') {
        *at = word;
        return NULL;
    }
    char *end = word;
    while (*end != '\0' && space_size(end) == 0) {
        end++; /* a byte within a character is no white space */
    }
    *at = end + space_size(end);
    *end = '\0';
    return word;
}

/* Cuts the white space off at the end. */
static void trim_end(char *text)
{
    char *end = text; /* of what is no white space */
    for (char *at = text; *at != '\0';) {
        size_t size = space_size(at);
        at += size > 0 ? size : 1;
        end = size > 0 ? end : at;
    }
    *end = '\0';
}

/* "TZ=Europe/Berlin " in front, if it is there; moves *at behind it. */
static quern_status read_zone(char **at, struct qn_cron *cron, quern_error *err)
{
    bool has_zone = qn_str_starts_with(*at, "TZ=") || qn_str_starts_with(*at, "CRON_TZ=");
    if (!has_zone) {
        return QUERN_OK;
    }
    const char *name = strchr(*at, '=') + 1;
    char *blank = strchr(*at, ' ');
    if (blank == NULL) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "nothing follows the time zone: write for example \"CRON_TZ=Asia/Tokyo "
                            "0 6 * * *\", with a blank behind the zone");
    }
    *blank = '\0';
    *at = skip_space(blank + 1);
    trim_end(*at);
    if (strcmp(name, "Local") == 0) {
        return QUERN_OK; /* as if there were none */
    }
    if (*name == '\0') {
        name = "UTC";
    }
    quern_status status = qn_zones_check_name(name, err);
    if (status == QUERN_OK) {
        memcpy(cron->zone, name, strlen(name) + 1);
    }
    return status;
}

static quern_status read_fields(char *const fields[QN_CRON_PLACES], struct qn_cron *cron,
                                quern_error *err)
{
    uint64_t *const bits[QN_CRON_PLACES] = {&cron->seconds, &cron->minutes, &cron->hours,
                                            &cron->days,    &cron->months,  &cron->weekdays};
    for (size_t i = 0; i < QN_CRON_PLACES; i++) {
        quern_status status = qn_cron_field_parse(fields[i], (enum qn_cron_place)i, bits[i], err);
        if (status != QUERN_OK) {
            return status;
        }
    }
    return QUERN_OK;
}

static quern_status read_descriptor(const char *text, struct qn_cron *cron, quern_error *err)
{
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        if (strcmp(text, descriptors[i].name) == 0) {
            char copies[QN_CRON_PLACES][2];
            char *fields[QN_CRON_PLACES];
            for (size_t k = 0; k < QN_CRON_PLACES; k++) {
                memcpy(copies[k], descriptors[i].fields[k], sizeof copies[k]);
                fields[k] = copies[k];
            }
            return read_fields(fields, cron, err);
        }
    }
    if (qn_str_starts_with(text, "@every ")) {
        return qn_cron_every_parse(text + strlen("@every "), &cron->every_s, err);
    }
    char shown[QN_NAME_SHOWN_SIZE];
    return qn_error_set(
        err, QUERN_E_INVALID,
        "\"%.60s\" is unknown; allowed: @yearly, @annually, @monthly, @weekly, @daily, "
        "@midnight, @hourly, @every DURATION",
        qn_name_show(text, shown));
}

static quern_status refuse_count(size_t count, unsigned flags, quern_error *err)
{
    bool seconds = (flags & QN_CRON_SECONDS) != 0;
    const char *hint = "";
    if (!seconds && count == QN_CRON_PLACES) {
        hint = "; a field for seconds is an option of its own";
    }
    return qn_error_set(err, QUERN_E_INVALID,
                        "%zu field%s instead of %d: %sminute, hour, day of "
                        "month, month, day of week%s",
                        count, count == 1 ? "" : "s", seconds ? QN_CRON_PLACES : QN_CRON_PLACES - 1,
                        seconds ? "second, " : "", hint);
}

/* `text` is a copy that may be changed. */
static quern_status parse(char *text, unsigned flags, struct qn_cron *cron, quern_error *err)
{
    char zero[] = "0";
    char *fields[QN_CRON_PLACES] = {zero};
    size_t first = (flags & QN_CRON_SECONDS) != 0 ? 0 : 1;
    size_t count = 0;
    quern_status status = read_zone(&text, cron, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (*text == '@') {
        return read_descriptor(text, cron, err);
    }
    for (char *word = take_word(&text); word != NULL; word = take_word(&text)) {
        if (first + count < QN_CRON_PLACES) {
            fields[first + count] = word;
        }
        count++;
    }
    if (first + count != QN_CRON_PLACES) {
        return refuse_count(count, flags, err);
    }
    return read_fields(fields, cron, err);
}

quern_status qn_cron_parse(const char *text, unsigned flags, struct qn_cron *ret_cron,
                           quern_error *err)
{
    char copy[QN_CRON_SIZE_MAX + 1];
    size_t size = strlen(text);
    struct qn_cron cron = {0};
    if (size > QN_CRON_SIZE_MAX) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "a cron expression has %zu bytes, at most %d are allowed", size,
                            QN_CRON_SIZE_MAX);
    }
    if (qn_str_blank(text)) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "a cron expression is empty: write for example \"0 6 * * *\"");
    }
    memcpy(copy, text, size + 1);
    quern_status status = parse(copy, flags, &cron, err);
    if (status == QUERN_OK) {
        *ret_cron = cron;
    }
    return status;
}
