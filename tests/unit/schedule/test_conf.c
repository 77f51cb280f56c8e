/* SPDX-License-Identifier: MIT */
/* test_conf.c - schedule.conf: what becomes of each key, and which line is named for each fault. */
#include "schedule/conf.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib_test.h"

#define NOW_MS INT64_C(1795000000000)
/* A section that is right, as far as line 3. */
#define GOOD "[a]\ncron = 0 6 * * *\ntype = t\n"

struct desk {
    struct qn_zones zones;
    struct qn_conf conf;
    quern_error err;
};

static int open_desk(void **state)
{
    static struct desk desk;
    desk = (struct desk){.conf = {.entry_count = 0}};
    *state = &desk;
    return qn_zones_init(&desk.zones, TEST_DATA "/zoneinfo", NULL) == QUERN_OK ? 0 : -1;
}

static int close_desk(void **state)
{
    struct desk *desk = *state;
    qn_conf_finish(&desk->conf);
    qn_zones_finish(&desk->zones);
    return 0;
}

static struct qn_conf_terms terms_of(struct desk *desk)
{
    return (struct qn_conf_terms){.origin = "file:/etc/schedule.conf",
                                  .default_zone = "Europe/Berlin",
                                  .zones = &desk->zones,
                                  .now_ms = NOW_MS};
}

static quern_status parse_bytes(struct desk *desk, const char *text, size_t size)
{
    const struct qn_conf_terms terms = terms_of(desk);
    qn_conf_finish(&desk->conf);
    desk->err = (quern_error){0};
    return qn_conf_parse((struct qn_bytes){.data = text, .size = size}, &terms, &desk->conf,
                         &desk->err);
}

static void parse(struct desk *desk, const char *text)
{
    assert_ok(parse_bytes(desk, text, strlen(text)), desk->err);
}

static void each_key_has_its_place_in_the_entry(void **state)
{
    struct desk *desk = *state;
    parse(desk, "\xef\xbb\xbf; all keys\n"
                "[nightly]\r\n"
                "cron = 30 2 * * * ; each night\r\n"
                "zone: Asia/Tokyo\n"
                "misfire = all 3\n"
                "late = 2m\n"
                "jitter = 5m\n"
                "type = report:nightly\n"
                "payload = {\"day\":\n"
                "\n"
                "   \"yesterday;\"\n"
                " # not a part of it\n"
                "\t}   \n"
                "queue = reports\n"
                "retry-max = 3\n"
                "timeout = 20m\n"
                "deadline = 2036-11-20T12:00:00Z\n"
                "delay = 10\n"
                "unique = 1h\n"
                "retention = 2d\n"
                "group = g\nlimit-key = tenant 7\n"
                "header = trace=a=b\n"
                "header = empty=\n"
                "# behind it, nothing\n"
                "[second] ; of two\n"
                "type=t\n"
                "cron=*/5 * * * * *\ntimeout=never\n"
                "retry_max=never\n"
                "late=0");
    assert_int_equal(desk->conf.fault_count, 0);
    assert_int_equal(desk->conf.entry_count, 2);
    const struct qn_schedule_entry *entry = &desk->conf.entries[0];
    assert_string_equal(entry->name, "nightly");
    assert_string_equal(entry->origin, "file:/etc/schedule.conf");
    assert_string_equal(entry->cron, "30 2 * * *");
    assert_string_equal(entry->zone, "Asia/Tokyo");
    assert_int_equal(entry->misfire, QN_MISFIRE_ALL);
    assert_int_equal(entry->misfire_max, 3);
    assert_int_equal(entry->late_ms, 120000);
    assert_int_equal(entry->jitter_ms, 300000);
    const struct qn_task *task = &entry->task;
    static const char payload[] = "{\"day\":\n\"yesterday;\"\n}";
    assert_string_equal(task->type, "report:nightly");
    assert_int_equal(task->payload_size, sizeof payload - 1);
    assert_memory_equal(task->payload, payload, sizeof payload - 1);
    assert_string_equal(task->queue, "reports");
    assert_int_equal(task->retry_max, 3);
    assert_int_equal(task->timeout_ms, 1200000);
    assert_int_equal(task->deadline_at_ms, INT64_C(2110795200000));
    assert_int_equal(task->delay_ms, 10000);
    assert_int_equal(task->unique_ms, 3600000);
    assert_int_equal(task->retention_ms, 2 * 86400000);
    assert_string_equal(task->group, "g");
    assert_string_equal(task->limit_key, "tenant 7");
    assert_int_equal(task->header_count, 2);
    assert_string_equal(task->headers[0].name, "trace");
    assert_string_equal(task->headers[0].value, "a=b");
    assert_string_equal(task->headers[1].name, "empty");
    assert_string_equal(task->headers[1].value, "");
    entry = &desk->conf.entries[1];
    assert_string_equal(entry->zone, "Europe/Berlin");
    assert_true(entry->with_seconds);
    assert_int_equal(entry->late_ms, 0);
    assert_int_equal(entry->task.timeout_ms, 0);
    assert_int_equal(entry->task.retry_max, 0);
    assert_null(entry->task.payload);
}

/* The only one of this text. */
static void assert_fault(struct desk *desk, const char *text, const struct qn_conf_fault *is)
{
    parse(desk, text);
    const struct qn_conf_fault none = {.name = "", .text = ""};
    const struct qn_conf_fault *fault = desk->conf.fault_count > 0 ? desk->conf.faults : &none;
    if (desk->conf.fault_count != 1 || fault->line != is->line ||
        strcmp(fault->name, is->name) != 0 ||
        strncmp(fault->text, is->text, strlen(is->text)) != 0) {
        fail_msg("%s: %zu faults, line %zu, [%s] %s", text, desk->conf.fault_count, fault->line,
                 fault->name, fault->text);
    }
}

static void faults_name_line_section_and_reason(void **state)
{
    struct desk *desk = *state;
    static const struct {
        const char *text;
        struct qn_conf_fault is;
    } cases[] = {
        {"x = 1\n", {1, "", "a line before the first [section]"}},
        {"[a\ncron = 0 6 * * *\n", {1, "", "the head of a section has no ]"}},
        {"[a] b\ncron = 0 6 * * *\n", {1, "a", "behind the ] of a section is more than a comment"}},
        {"[]\ncron = 0 6 * * *\n", {1, "", "the name of an entry has 1 to 128 bytes"}},
        {"[ a ]\n", {1, "", "the name of an entry has 1 to 128 bytes"}},
        {"[a{b}]\n", {1, "", "the name of an entry has 1 to 128 bytes"}},
        {"\n[a]\n", {2, "a", "cron is missing"}},
        {"[a]\ntype = t\n", {1, "a", "cron is missing"}},
        {"[a]\ncron = @daily\n", {1, "a", "type "}},
        {"[a]\ntype = t\n\ncron = 99 * * * *\n", {4, "a", "cron: minute \"99\": 99 is above 59"}},
        {GOOD "zone = Europe/Atlantis\n", {4, "a", "zone: "}},
        {GOOD "misfire = never\n", {4, "a", "misfire \"never\": allowed are skip, once"}},
        {GOOD "jitter = 25h\n", {4, "a", "jitter must be at most a day"}},
        {GOOD "jitter = soon\n", {4, "a", "jitter: "}},
        {GOOD "late = -1\n", {4, "a", "late: "}},
        {GOOD "late = 5\x1b[\xff\u202e\n", {4, "a", "late: \"5?[\ufffd???\" is not a duration"}},
        {GOOD "timeout = 0\n", {4, "a", "timeout 0 is refused: write never"}},
        {GOOD "timeout = long\n", {4, "a", "timeout: "}},
        {GOOD "retry_max = 0\n", {4, "a", "retry_max 0 is refused: write never"}},
        {GOOD "retry_max = 1.5\n", {4, "a", "retry_max is a whole number"}},
        {GOOD "retry_max = 2147483648\n", {4, "a", "retry_max is a whole number"}},
        {GOOD "retry_max = -1\n", {4, "a", "retry_max is a whole number"}},
        {GOOD "deadline = tomorrow\n", {4, "a", "deadline: "}},
        {GOOD "deadline = 2020-01-01T00:00:00Z\n", {4, "a", "deadline_at_ms "}},
        {GOOD "unique = 5ms\n", {4, "a", "unique_ms must be "}},
        {GOOD "header = trace\n", {4, "a", "header is not NAME=VALUE"}},
        {GOOD "header = =x\n", {4, "a", "header is not NAME=VALUE"}},
        {GOOD "header = quern-entry=x\n", {4, "a", "header quern-entry is the scheduler's"}},
        {GOOD "queue =\n", {4, "a", "queue is empty"}},
        {GOOD "queue = a{b}\n", {4, "a", "queue "}},
        {GOOD "cron = @daily\n", {4, "a", "cron is given twice, first in line 2"}},
        {GOOD "retri_max = 4\n", {4, "a", "unknown key \"retri_max\"; did you mean retry_max?"}},
        {GOOD "color = red\n", {4, "a", "unknown key \"color\""}},
        {GOOD "id = mine\n", {4, "a", "id is not for an entry: each task gets its own"}},
        {GOOD "process-at = @1800000000\n",
         {4, "a", "process_at is not for an entry: cron decides"}},
        {GOOD "payload\n", {4, "a", "the line is not KEY = VALUE"}},
        {GOOD "= 5\n", {4, "a", "unknown key \"\""}},
        {GOOD "  queue = q\n", {4, "a", "an indented line continues a payload"}},
        {"[a]\n  cron = @daily\n", {2, "a", "an indented line continues a payload"}},
        {GOOD "payload = 1\n[b]\n  2\n", {6, "b", "an indented line continues a payload"}},
        {GOOD GOOD, {4, "a", "there is a section of this name before: the first one counts"}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_fault(desk, cases[i].text, &cases[i].is);
    }
}

static void terms_of_a_lock_and_of_the_start_are_read(void **state)
{
    struct desk *desk = *state;
    parse(desk, GOOD "unique = 1h\nunique_key = shop 1\nunique-until = started\n"
                     "on_duplicate = debounce\nstart-within = 90\npriority = -7\n");
    assert_int_equal(desk->conf.fault_count, 0);
    const struct qn_task *task = &desk->conf.entries[0].task;
    assert_int_equal(task->unique_ms, 3600000);
    assert_string_equal(task->unique_key, "asynq:{default}:unique:shop 1:custom");
    assert_int_equal(task->unique_until, QUERN_UNIQUE_UNTIL_STARTED);
    assert_int_equal(task->on_duplicate, QUERN_ON_DUPLICATE_DEBOUNCE);
    assert_int_equal(task->start_by_at_ms, 90000); /* a duration until there is a tick */
    assert_int_equal(task->priority, -7);
}

static void limits_of_a_run_are_read(void **state)
{
    struct desk *desk = *state;
    parse(desk, GOOD "kill_after = 10\ncpu = 1m\nmemory = 512M\n");
    assert_int_equal(desk->conf.entry_count, 1);
    assert_int_equal(desk->conf.entries[0].task.kill_after_ms, 10000);
    assert_int_equal(desk->conf.entries[0].task.cpu_ms, 60000);
    assert_int_equal(desk->conf.entries[0].task.memory_max, INT64_C(512) << 20);
}

static void faults_of_these_terms_name_their_line(void **state)
{
    static const struct {
        const char *text;
        struct qn_conf_fault is;
    } cases[] = {
        {GOOD "unique = 1h\nunique_until = never\n", {5, "a", "unique_until is not done, started"}},
        {GOOD "unique = 1h\non_duplicate = what\n", {5, "a", "on_duplicate is not fail, ignore"}},
        {GOOD "unique_key = k\n", {4, "a", "unique_key needs unique_ms"}},
        {GOOD "unique = 1h\nunique_key = \x01\n", {5, "a", "unique_key"}},
        {GOOD "priority = 101\n", {4, "a", "priority is a whole number from -100 to 100"}},
        {GOOD "priority = --1\n", {4, "a", "priority is a whole number from -100 to 100"}},
        {GOOD "memory = much\n", {4, "a", "memory"}},
        {GOOD "start_within = soon\n", {4, "a", "start_within"}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_fault(*state, cases[i].text, &cases[i].is);
    }
}

static void bad_section_costs_no_other(void **state)
{
    struct desk *desk = *state;
    parse(desk, "[one]\ncron = @daily\ntype = t\n"
                "[two]\ncron = @nightly\ntype = t\nqueue = q\n"
                "[three\ncron = @hourly\ntype = lost\n" /* nothing of it belongs to two */
                "[four]\nnonsense\ntype = t\nmore nonsense\n"
                "[five]\ncron = @weekly\ntype = t5\n");
    assert_int_equal(desk->conf.entry_count, 2);
    assert_string_equal(desk->conf.entries[0].name, "one");
    assert_string_equal(desk->conf.entries[0].task.queue, "default");
    assert_string_equal(desk->conf.entries[1].name, "five");
    assert_string_equal(desk->conf.entries[1].task.type, "t5");
    assert_int_equal(desk->conf.fault_count, 3);
    assert_string_equal(desk->conf.faults[0].name, "two");
    assert_int_equal(desk->conf.faults[0].line, 5);
    assert_string_equal(desk->conf.faults[1].name, "");
    assert_int_equal(desk->conf.faults[1].line, 8);
    assert_string_equal(desk->conf.faults[2].name, "four");
    assert_int_equal(desk->conf.faults[2].line, 12);
}

/* inih cuts names off at 50 bytes, and lines in two at 200. */
static void long_names_and_lines_are_not_cut(void **state)
{
    struct desk *desk = *state;
    char name[129];
    char text[2048];
    memset(name, 'n', 128);
    name[128] = '\0';
    (void)snprintf(text, sizeof text, "[%s]\ncron=@daily\ntype=t\n[%sm]\ncron=@daily\ntype=t\n",
                   name, name + 1);
    parse(desk, text);
    assert_int_equal(desk->conf.entry_count, 2);
    assert_string_equal(desk->conf.entries[0].name, name);
    char value[500];
    memset(value, 'v', sizeof value);
    for (size_t size = 150; size < sizeof value; size++) {
        (void)snprintf(text, sizeof text,
                       GOOD "payload = %.*s\n\t%.*s w\nqueue = q ; %.*s\n[b]\ncron=@daily\n"
                            "type=t\n",
                       (int)size, value, (int)size, value, (int)size, value);
        parse(desk, text);
        assert_int_equal(desk->conf.fault_count, 0);
        assert_int_equal(desk->conf.entries[0].task.payload_size, 2 * size + 3);
        assert_string_equal(desk->conf.entries[0].task.queue, "q");
        assert_string_equal(desk->conf.entries[1].name, "b");
    }
    /* A comment may have any length. */
    (void)snprintf(text, sizeof text, GOOD "; %.*s\nqueue = q\n", 400, value);
    parse(desk, text);
    assert_int_equal(desk->conf.fault_count, 0);
    assert_string_equal(desk->conf.entries[0].task.queue, "q");
}

static void comment_is_cut_off_only_where_no_free_text_is(void **state)
{
    struct desk *desk = *state;
    parse(desk, "[a]   ; nothing\ncron = @daily  ; each day\ntype = t ;x\nqueue = q;r\n"
                "payload = select 1 ; select 2  \n  {\"a\": 1} ; # x\n  ; a comment\n"
                "header = h=a ;b\nunique=1h\nunique_key:  a ;b\nlimit_key = ; c\ngroup = g ; h\n");
    assert_int_equal(desk->conf.fault_count, 0);
    const struct qn_schedule_entry *entry = &desk->conf.entries[0];
    assert_string_equal(entry->cron, "@daily");
    assert_string_equal(entry->task.type, "t");
    assert_string_equal(entry->task.queue, "q;r");
    static const char payload[] = "select 1 ; select 2\n{\"a\": 1} ; # x";
    assert_int_equal(entry->task.payload_size, sizeof payload - 1);
    assert_memory_equal(entry->task.payload, payload, sizeof payload - 1);
    assert_string_equal(entry->task.headers[0].value, "a ;b");
    assert_string_equal(entry->task.limit_key, "; c");
    assert_string_equal(entry->task.group, "g ; h");
}

static void line_that_is_too_long_for_a_key_costs_its_own_section(void **state)
{
    struct desk *desk = *state;
    char text[2048];
    char long_text[400];
    memset(long_text, 'v', sizeof long_text);
    (void)snprintf(text, sizeof text,
                   GOOD "[%.*s]\ncron = @daily\n[b]\ncron = @daily\ntype = t\n%.*s = 1\n"
                        "[c]\ncron = @daily\ntype = t\n%.*s\n[d] ; %.*s\ncron=@daily\ntype = t\n",
                   300, long_text, 300, long_text, 300, long_text, 300, long_text);
    parse(desk, text);
    assert_int_equal(desk->conf.entry_count, 2);
    assert_string_equal(desk->conf.entries[0].name, "a");
    assert_string_equal(desk->conf.entries[1].name, "d");
    assert_int_equal(desk->conf.fault_count, 3);
    assert_int_equal(desk->conf.faults[0].line, 4);
    assert_string_equal(desk->conf.faults[1].text, "the line is not KEY = VALUE");
    assert_int_equal(desk->conf.faults[2].line, 13);
}

static void nul_is_a_fault_of_its_section(void **state)
{
    struct desk *desk = *state;
    static const char text[] = GOOD "queue = q\0r\n[b]\ncron=@daily\ntype=t\n";
    assert_ok(parse_bytes(desk, text, sizeof text - 1), desk->err);
    assert_int_equal(desk->conf.entry_count, 1);
    assert_string_equal(desk->conf.entries[0].name, "b");
    assert_int_equal(desk->conf.faults[0].line, 4);
    assert_string_equal(desk->conf.faults[0].text, "the line has a NUL character");
}

static void file_of_another_kind_is_refused_as_a_whole(void **state)
{
    struct desk *desk = *state;
    enum { FAULTS = QN_CONF_FAULTS_MAX + 1 };
    char *text = calloc(FAULTS, 8);
    assert_non_null(text);
    for (size_t i = 0; i < FAULTS; i++) {
        (void)snprintf(text + strlen(text), 8, "[%zu]\n", i);
    }
    assert_int_equal(parse_bytes(desk, text, strlen(text)), QUERN_E_INVALID);
    assert_string_equal(desk->err.text, "line 1001: more than 1000 faults");
    assert_int_equal(desk->conf.entry_count + desk->conf.fault_count, 0);
    free(text);
    parse(desk, "");
    assert_int_equal(desk->conf.entry_count + desk->conf.fault_count, 0);
}

static void files_are_read_or_named(void **state)
{
    struct desk *desk = *state;
    const struct qn_conf_terms terms = terms_of(desk);
    char dir[TEST_DIR_SIZE];
    char path[TEST_DIR_SIZE + 32];
    test_dir_make(dir);
    (void)snprintf(path, sizeof path, "%s/schedule.conf", dir);
    assert_int_equal(qn_conf_read(path, &terms, &desk->conf, &desk->err), QUERN_E_NOT_FOUND);
    assert_non_null(strstr(desk->err.text, "schedule.conf: No such file"));
    assert_int_equal(qn_conf_read(dir, &terms, &desk->conf, &desk->err), QUERN_E_INVALID);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(qn_conf_read(path, &terms, &desk->conf, &desk->err), QUERN_E_INVALID);
    assert_non_null(strstr(desk->err.text, "is not a file"));
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, GOOD, strlen(GOOD)), strlen(GOOD));
    assert_ok(qn_conf_read(path, &terms, &desk->conf, &desk->err), desk->err);
    assert_int_equal(desk->conf.entry_count, 1);
    assert_int_equal(ftruncate(fd, (off_t)QN_CONF_SIZE_MAX + 1), 0);
    qn_conf_finish(&desk->conf);
    assert_int_equal(qn_conf_read(path, &terms, &desk->conf, &desk->err), QUERN_E_INVALID);
    assert_non_null(strstr(desk->err.text, "has more than 16777216 bytes"));
    assert_int_equal(close(fd), 0);
    test_dir_remove(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_desk, close_desk)
static const struct CMUnitTest tests[] = {
    TEST(each_key_has_its_place_in_the_entry),
    TEST(faults_name_line_section_and_reason),
    TEST(terms_of_a_lock_and_of_the_start_are_read),
    TEST(limits_of_a_run_are_read),
    TEST(faults_of_these_terms_name_their_line),
    TEST(bad_section_costs_no_other),
    TEST(long_names_and_lines_are_not_cut),
    TEST(comment_is_cut_off_only_where_no_free_text_is),
    TEST(line_that_is_too_long_for_a_key_costs_its_own_section),
    TEST(nul_is_a_fault_of_its_section),
    TEST(file_of_another_kind_is_refused_as_a_whole),
    TEST(files_are_read_or_named),
};

TEST_MAIN(tests)
