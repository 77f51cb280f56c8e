/* SPDX-License-Identifier: MIT */
/* test_zone.c - the calendar, rules of zones, TZif files whole and damaged, and the names by which
 * files are found. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time/zone_rule.h"
#include "base/time/zones.h"
#include "lib_test.h"

#define HOUR 3600

/* The calendar of the C library, on days near and far. */
static void calendar_is_that_of_the_c_library(void **state)
{
    (void)state;
    for (int64_t day = -800000; day <= 200000; day += 13) {
        time_t seconds = (time_t)(day * 86400 + (day % 86400 + 86400) % 86400);
        struct tm wanted;
        struct qn_civil civil;
        assert_non_null(gmtime_r(&seconds, &wanted));
        qn_civil_from_seconds(seconds, &civil);
        assert_int_equal(civil.year, wanted.tm_year + 1900);
        assert_int_equal(civil.month, wanted.tm_mon + 1);
        assert_int_equal(civil.day, wanted.tm_mday);
        assert_int_equal(civil.hour, wanted.tm_hour);
        assert_int_equal(civil.minute, wanted.tm_min);
        assert_int_equal(civil.second, wanted.tm_sec);
        assert_int_equal(civil.weekday, wanted.tm_wday);
        assert_int_equal(qn_civil_to_seconds(&civil), seconds);
    }
}

static void dates_beyond_their_range_count_on(void **state)
{
    (void)state;
    static const struct {
        struct qn_civil given;
        struct qn_civil meant;
    } cases[] = {
        {{.year = 2026, .month = 13, .day = 1}, {.year = 2027, .month = 1, .day = 1}},
        {{.year = 2026, .month = 0, .day = 1}, {.year = 2025, .month = 12, .day = 1}},
        {{.year = 2026, .month = 2, .day = 31}, {.year = 2026, .month = 3, .day = 3}},
        {{.year = 2024, .month = 2, .day = 29}, {.year = 2024, .month = 1, .day = 60}},
        {{.year = 2026, .month = 1, .day = 1, .hour = -1},
         {.year = 2025, .month = 12, .day = 31, .hour = 23}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(qn_civil_to_seconds(&cases[i].given),
                         qn_civil_to_seconds(&cases[i].meant));
    }
}

static struct qn_bytes bytes(const char *text)
{
    return (struct qn_bytes){.data = text, .size = strlen(text)};
}

static int64_t utc(int year, int month, int day, int hour)
{
    return qn_civil_to_seconds(
        &(struct qn_civil){.year = year, .month = month, .day = day, .hour = hour});
}

/* The hour by UTC at which the offset changes from one to the other. */
static void rules_change_at_their_hour(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        int year, month, day, hour; /* the first hour by UTC with the offset `after` */
        int before, after;          /* in minutes */
    } cases[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", 2100, 3, 28, 1, 60, 120},
        {"CET-1CEST,M3.5.0,M10.5.0/3", 2100, 10, 31, 1, 120, 60},
        {"EST5EDT", 2026, 3, 8, 7, -300, -240}, /* the rule of the United States */
        {"EST5EDT4,M3.2.0/2:00:00,M11.1.0", 2026, 11, 1, 6, -240, -300},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", 2030, 4, 6, 16, 660, 600},
        {"AEST-10AEDT,M10.1.0,M4.1.0/3", 2030, 10, 5, 16, 600, 660},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 2026, 4, 4, 15, 660, 630},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", 2026, 3, 29, 1, 0, 60}, /* summer time in winter */
        {"IST-1GMT0,M10.5.0,M3.5.0/1", 2026, 10, 25, 1, 60, 0},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, 3, 29, 1, -120, -60},
        {"EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, 3, 28, 0, 120, 180},
        {"AAA3BBB,J60/0,J305/0", 2028, 3, 1, 3, -180, -120}, /* day 60 is March 1, always */
        {"AAA3BBB,60/0,304/0", 2028, 3, 1, 3, -180, -120},   /* in a leap year */
        {"AAA3BBB,60/0,304/0", 2027, 3, 2, 3, -180, -120},
        {"AAA3BBB,M1.1.0,J365/23", 2028, 1, 1, 1, -120, -180}, /* in another year by UTC */
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct qn_zone_rule rule;
        assert_true(qn_zone_rule_parse(bytes(cases[i].rule), &rule));
        int64_t at_s = utc(cases[i].year, cases[i].month, cases[i].day, cases[i].hour);
        assert_int_equal(qn_zone_rule_offset(&rule, at_s), 60 * cases[i].after);
        assert_int_equal(qn_zone_rule_offset(&rule, at_s - HOUR), 60 * cases[i].before);
    }
}

static void summer_may_last_all_year(void **state)
{
    (void)state;
    struct qn_zone_rule rule;
    assert_true(qn_zone_rule_parse(bytes("XXX3EDT4,0/0,J365/23"), &rule));
    for (int64_t at_s = utc(2026, 1, 1, 0); at_s < utc(2029, 1, 1, 0); at_s += HOUR) {
        assert_int_equal(qn_zone_rule_offset(&rule, at_s), -4 * HOUR);
    }
}

static void what_is_no_rule_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "X",
        "CET",
        "CE-1",
        "CET-",
        "CET-1:",
        "CET-1:60",
        "CET-1:00:60",
        "CET168",
        "CET26",
        "<CET-1",
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,",
        "CET-1CEST,M3.5.0,M10.5.0x",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,J0,J5",
        "CET-1CEST,J366,J5",
        "CET-1CEST,366,5",
        "CET-1CEST,M3.5.0/168,M10.5.0",
        "CET-1 CEST",
        "CET-99999999999999999999",
        "CET-1CE",
        "CET-1CEST2CEST",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        struct qn_zone_rule rule;
        assert_false(qn_zone_rule_parse(bytes(texts[i]), &rule));
    }
}

/* A file that is made by hand. */
struct file {
    unsigned char data[1024];
    size_t size;
};

static void put(struct file *file, const void *data, size_t size)
{
    assert_true(file->size + size <= sizeof file->data);
    memcpy(file->data + file->size, data, size);
    file->size += size;
}

static void put_number(struct file *file, int64_t number, size_t size)
{
    for (size_t i = size; i > 0; i--) {
        unsigned char byte = (unsigned char)((uint64_t)number >> 8 * (i - 1));
        put(file, &byte, 1);
    }
}

static void put_zeros(struct file *file, size_t count)
{
    static const unsigned char zeros[32];
    put(file, zeros, count);
}

/* Leap seconds, changes, types and characters of the header, in its order. */
static void put_header(struct file *file, char version, const uint32_t counts[4])
{
    char head[20] = "TZif";
    head[4] = version;
    put(file, head, sizeof head);
    put_number(file, 0, 4);
    put_number(file, 0, 4);
    for (size_t i = 0; i < 4; i++) {
        put_number(file, counts[i], 4);
    }
}

/* One of "LMT" at +0:53 until the year 2000, then +1:00, then the rule. */
static struct file make_file(char version, const char *footer)
{
    struct file file = {0};
    static const uint32_t counts[] = {0, 1, 2, 4};
    size_t blocks = version == '\0' ? 1 : 2;
    for (size_t block = 0; block < blocks; block++) {
        put_header(&file, version, counts);
        put_number(&file, 946684800, block == 0 ? 4 : 8);
        put_number(&file, 1, 1);
        put_number(&file, 53 * 60, 4);
        put_number(&file, 0, 2);
        put_number(&file, HOUR, 4);
        put_number(&file, 0, 2);
        put(&file, "LMT", 4);
    }
    if (blocks == 2) {
        put(&file, footer, strlen(footer));
    }
    return file;
}

/* In memory of exactly its size, so that the sanitizer sees every byte read behind it. */
static quern_status parse(const struct file *file, size_t size, struct qn_zone **ret_zone,
                          quern_error *err)
{
    unsigned char *exact = malloc(size + (size == 0));
    assert_non_null(exact);
    memcpy(exact, file->data, size);
    quern_status status =
        qn_zone_parse((struct qn_bytes){.data = exact, .size = size}, ret_zone, err);
    free(exact);
    return status;
}

static void every_version_is_read(void **state)
{
    (void)state;
    static const char versions[] = {'\0', '2', '3', '4'};
    for (size_t i = 0; i < sizeof versions; i++) {
        quern_error err = {0};
        struct qn_zone *zone = NULL;
        struct file file = make_file(versions[i], "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        assert_ok(parse(&file, file.size, &zone, &err), err);
        assert_int_equal(qn_zone_offset(zone, 0), 53 * 60);
        assert_int_equal(qn_zone_offset(zone, 946684799), 53 * 60);
        assert_int_equal(qn_zone_offset(zone, 946684800), HOUR);
        /* Version 1 has no rule: its last offset holds for ever. */
        int summer = versions[i] == '\0' ? HOUR : 2 * HOUR;
        assert_int_equal(qn_zone_offset(zone, utc(2100, 7, 1, 0)), summer);
        qn_zone_free(zone);
    }
    quern_error err = {0};
    struct qn_zone *zone = NULL;
    struct file file = make_file('2', "\n\n");
    assert_ok(parse(&file, file.size, &zone, &err), err);
    assert_int_equal(qn_zone_offset(zone, utc(2100, 7, 1, 0)), HOUR);
    qn_zone_free(zone);
}

static void file_that_was_cut_is_refused(void **state)
{
    (void)state;
    struct file file = make_file('2', "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    for (size_t size = 0; size < file.size; size++) {
        struct qn_zone *zone = NULL;
        quern_error err = {0};
        assert_int_equal(parse(&file, size, &zone, &err), QUERN_E_CORRUPT);
        assert_null(zone);
        assert_true(strlen(err.text) > 10);
    }
}

/* A byte of a version 2 file is changed, and the error has these words. */
static void damaged_file_is_refused_with_its_fault(void **state)
{
    (void)state;
    const size_t second = 44 + 4 + 1 + 12 + 4; /* the second header */
    const size_t data = second + 44;
    const struct {
        size_t at;
        unsigned char byte;
        const char *words;
    } cases[] = {
        {0, 'X', "not a TZif file"},
        {4, '5', "unknown version"},
        {4, '1', "unknown version"},
        {second, 't', "not a TZif file"},
        {35, 200, "ends before the data"},          /* changes of the first block */
        {second + 32, 255, "ends before the data"}, /* four thousand million changes */
        {second + 31, 1, "rule for later years"},   /* a leap second that is not there */
        {second + 39, 0, "rule for later years"},   /* no types: what follows is shifted */
        {data + 8, 2, "type that is not there"},    /* the type of the change */
        {data + 9, 0x7f, "seconds from UTC"},       /* the offset of a type */
        {data + 9, 0x80, "seconds from UTC"},
        {data + 9 + 12 + 4, 'x', "rule for later years"}, /* the end of the line before it */
        {data + 9 + 12 + 4 + 1, '1', "cannot be read"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct file file = make_file('2', "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
        struct qn_zone *zone = NULL;
        quern_error err = {0};
        file.data[cases[i].at] = cases[i].byte;
        assert_int_equal(parse(&file, file.size, &zone, &err), QUERN_E_CORRUPT);
        if (strstr(err.text, cases[i].words) == NULL) {
            fail_msg("case %zu: %s", i, err.text);
        }
    }
}

static void changes_out_of_order_and_leap_seconds_are_refused(void **state)
{
    (void)state;
    static const uint32_t none[] = {0, 0, 1, 4};
    static const uint32_t two[] = {0, 2, 1, 4};
    static const uint32_t leap[] = {1, 0, 1, 4};
    quern_error err = {0};
    struct qn_zone *zone = NULL;
    struct file file = {0};
    put_header(&file, '\0', two);
    put_number(&file, 5, 4);
    put_number(&file, 5, 4);
    put_zeros(&file, 2 + 6 + 4);
    assert_int_equal(parse(&file, file.size, &zone, &err), QUERN_E_CORRUPT);
    assert_non_null(strstr(err.text, "change 2 is not later"));
    file = (struct file){0};
    put_header(&file, '\0', leap);
    put_zeros(&file, 6 + 4 + 8);
    assert_int_equal(parse(&file, file.size, &zone, &err), QUERN_E_CORRUPT);
    assert_non_null(strstr(err.text, "leap seconds"));
    file = (struct file){0};
    put_header(&file, '\0', none);
    put_zeros(&file, 6 + 4);
    assert_ok(parse(&file, file.size, &zone, &err), err);
    qn_zone_free(zone);
}

static void names_that_leave_the_folder_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "/",
        "/etc/passwd",
        "..",
        ".",
        "../zoneinfo/UTC",
        "Europe/../Europe/Berlin",
        "Europe/..",
        "Europe/.",
        "./UTC",
        "Europe//Berlin",
        "Europe/",
        "a b",
        "a\tb",
        "a\nb",
        "Europe\\Berlin",
        "caf\xc3\xa9",
        "%s%n",
        "UTC;",
        "~",
        "$HOME",
        "*",
        "0123456789012345678901234567890123456789012345678901234567890123",
    };
    struct qn_zones zones;
    quern_error err = {0};
    assert_ok(qn_zones_init(&zones, TEST_DATA "/zoneinfo", &err), err);
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        const struct qn_zone *zone;
        assert_int_equal(qn_zones_get(&zones, names[i], &zone, &err), QUERN_E_INVALID);
        assert_int_equal(qn_zones_check_name(names[i], NULL), QUERN_E_INVALID);
    }
    qn_zones_finish(&zones);
}

static void expect(struct qn_zones *zones, const char *name, quern_status status, const char *words)
{
    const struct qn_zone *zone;
    quern_error err = {0};
    assert_int_equal(qn_zones_get(zones, name, &zone, &err), status);
    if (strstr(err.text, words) == NULL) {
        fail_msg("%s: %s", name, err.text);
    }
}

static void write_file(const char *folder, const char *name, size_t size)
{
    char path[TEST_DIR_SIZE + 64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(close(fd), 0);
}

static void faults_of_files_are_named(void **state)
{
    (void)state;
    struct qn_zones zones;
    quern_error err = {0};
    char folder[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 64];
    test_dir_make(folder);
    assert_ok(qn_zones_init(&zones, folder, &err), err);
    expect(&zones, "Europe/Berlin", QUERN_E_NOT_FOUND, "no time zone \"Europe/Berlin\" in /");
    write_file(folder, "Empty", 0);
    expect(&zones, "Empty", QUERN_E_CORRUPT, "/Empty: is not a TZif file");
    expect(&zones, "Empty/Zone", QUERN_E_NOT_FOUND, "no time zone");
    write_file(folder, "Large", QN_ZONE_FILE_SIZE_MAX + 1);
    expect(&zones, "Large", QUERN_E_CORRUPT, "larger than 131072 bytes");
    (void)snprintf(path, sizeof path, "%s/Pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it must not wait for a writer */
    expect(&zones, "Pipe", QUERN_E_NOT_FOUND, "is not a file");
    (void)snprintf(path, sizeof path, "%s/Folder", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(&zones, "Folder", QUERN_E_NOT_FOUND, "is not a file");
    (void)snprintf(path, sizeof path, "%s/Loop", folder);
    assert_int_equal(symlink("Loop", path), 0);
    expect(&zones, "Loop", QUERN_E_NOT_FOUND, "symbolic links");
    qn_zones_finish(&zones);
    (void)snprintf(path, sizeof path, "%s/gone", folder);
    assert_ok(qn_zones_init(&zones, path, &err), err);
    expect(&zones, "Europe/Berlin", QUERN_E_NOT_FOUND, "install the package tzdata");
    const struct qn_zone *zone = (const struct qn_zone *)&zones;
    assert_ok(qn_zones_get(&zones, "UTC", &zone, &err), err); /* needs no file */
    assert_null(zone);
    qn_zones_finish(&zones);
    test_dir_remove(folder);
}

/* All readers of a zone get the same one. */
static void *get_often(void *user)
{
    static const char *const names[] = {"Europe/Berlin", "America/New_York", "Asia/Tokyo",
                                        "Australia/Lord_Howe"};
    const struct qn_zone *seen[TEST_COUNT(names)] = {NULL};
    for (size_t i = 0; i < 2000; i++) {
        size_t at = i % TEST_COUNT(names);
        const struct qn_zone *zone = NULL;
        quern_status status = qn_zones_get(user, names[at], &zone, NULL);
        if (status != QUERN_OK || zone == NULL || (seen[at] != NULL && seen[at] != zone) ||
            qn_zone_offset(zone, utc(2026, 1, 1, 0) + (int64_t)i * 86400) == 1) {
            return NULL;
        }
        seen[at] = zone;
    }
    return user;
}

static void threads_share_one_zone(void **state)
{
    (void)state;
    struct qn_zones zones;
    pthread_t threads[4];
    assert_int_equal(qn_zones_init(&zones, TEST_DATA "/zoneinfo", NULL), QUERN_OK);
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, get_often, &zones), 0);
    }
    for (size_t i = 0; i < TEST_COUNT(threads); i++) {
        void *end = NULL;
        assert_int_equal(pthread_join(threads[i], &end), 0);
        assert_ptr_equal(end, &zones);
    }
    assert_int_equal(zones.count, 4);
    qn_zones_finish(&zones);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(calendar_is_that_of_the_c_library),
    cmocka_unit_test(dates_beyond_their_range_count_on),
    cmocka_unit_test(rules_change_at_their_hour),
    cmocka_unit_test(summer_may_last_all_year),
    cmocka_unit_test(what_is_no_rule_is_refused),
    cmocka_unit_test(every_version_is_read),
    cmocka_unit_test(file_that_was_cut_is_refused),
    cmocka_unit_test(damaged_file_is_refused_with_its_fault),
    cmocka_unit_test(changes_out_of_order_and_leap_seconds_are_refused),
    cmocka_unit_test(names_that_leave_the_folder_are_refused),
    cmocka_unit_test(faults_of_files_are_named),
    cmocka_unit_test(threads_share_one_zone),
};

TEST_MAIN(tests)
