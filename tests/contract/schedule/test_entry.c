/* SPDX-License-Identifier: MIT */
/* test_entry.c - entries are added, replaced, paused, listed and removed, and their history kept.
 * */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/limit/limit.h"
#include "lib_schedule.h"
#include "lib_task.h"
#include "schedule/conf.h"

static uint64_t version(struct contract *c)
{
    return schedule_lead(c->broker, "", QN_LEAD_LOOK).version;
}

/* --- Put ---------------------------------------------------------------------------- */

static const quern_header headers[] = {{"trace", "42"}};

static bool assert_full_entry(const struct qn_schedule_entry *entry, void *user)
{
    size_t *count = user;
    ++*count;
    assert_null(entry->fault);
    assert_string_equal(entry->name, "full!#$%&'()*+,-.:;<=>?@[]^_`|~");
    assert_string_equal(entry->origin, "file:/etc/schedule.conf");
    assert_string_equal(entry->cron, "*/5 30 2 * * *");
    assert_string_equal(entry->zone, "Europe/Berlin");
    assert_true(entry->with_seconds);
    assert_int_equal(entry->misfire, QN_MISFIRE_ALL);
    assert_int_equal(entry->misfire_max, 1000);
    assert_int_equal(entry->late_ms, 5000);
    assert_int_equal(entry->jitter_ms, QN_JITTER_MS_MAX);
    assert_int_equal(entry->last_s, 77);
    assert_int_equal(entry->paused_at_ms, 0);
    assert_int_equal(entry->runs, 0);
    assert_null(entry->task.id);
    assert_string_equal(entry->task.queue, "other");
    assert_string_equal(entry->task.type, "report");
    assert_int_equal(entry->task.payload_size, 3);
    assert_memory_equal(entry->task.payload, "a\0b", 3);
    assert_int_equal(entry->task.retry_max, 7);
    assert_int_equal(entry->task.retry.kind, 2);
    assert_int_equal(entry->task.retry.base_ms, 20);
    assert_int_equal(entry->task.timeout_ms, 60001);
    assert_int_equal(entry->task.unique_ms, 3000);
    assert_int_equal(entry->task.retention_ms, 9000);
    assert_int_equal(entry->task.header_count, 1);
    assert_string_equal(entry->task.headers[0].value, "42");
    return true;
}

static void every_field_of_an_entry_comes_back(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("full!#$%&'()*+,-.:;<=>?@[]^_`|~");
    uint64_t revision = 0;
    size_t count = 0;
    quern_error err = {0};
    entry.origin = "file:/etc/schedule.conf";
    entry.cron = "*/5 30 2 * * *";
    entry.zone = "Europe/Berlin";
    entry.with_seconds = true;
    entry.misfire = QN_MISFIRE_ALL;
    entry.misfire_max = 1000;
    entry.late_ms = 5000;
    entry.jitter_ms = QN_JITTER_MS_MAX;
    entry.last_s = 77;
    entry.task.queue = "other";
    entry.task.type = "report";
    entry.task.payload = "a\0b";
    entry.task.payload_size = 3;
    entry.task.retry_max = 7;
    entry.task.retry = (quern_retry_policy)QUERN_BACKOFF_FIXED(20);
    entry.task.timeout_ms = 60001;
    entry.task.unique_ms = 3000;
    entry.task.retention_ms = 9000;
    entry.task.headers = headers;
    entry.task.header_count = 1;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_ANY, &revision), QN_PUT_ADDED);
    assert_ok(
        qn_schedule_list(c->broker, &(struct qn_entry_filter){0}, assert_full_entry, &count, &err),
        err);
    assert_int_equal(count, 1);
}

static void new_entry_begins_now(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    contract_advance(c, 5000);
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    struct schedule_view view = schedule_look(c, "e");
    assert_in_range(view.last_s, SCHEDULE_NOW_S + 5, SCHEDULE_NOW_S + 65);
    assert_in_range(view.created_at_ms, CONTRACT_NOW_MS + 5000, CONTRACT_NOW_MS + 65000);
    assert_int_equal(view.revision, revision);
}

static void equal_definition_is_left_alone(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t again = 0;
    uint64_t revision = schedule_put(c, "e");
    uint64_t before = version(c);
    entry.last_s = 5;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &again), QN_PUT_SAME);
    assert_int_equal(again, revision);
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_ANY, &again), QN_PUT_SAME);
    assert_int_equal(schedule_look(c, "e").last_s, SCHEDULE_LAST_S);
    assert_int_equal(version(c), before);
}

static void put_expects_a_revision(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t got = 0;
    assert_int_equal(schedule_put_one(c, &entry, 4711, &got), QN_PUT_GONE);
    assert_false(schedule_look(c, "e").found);
    uint64_t first = schedule_put(c, "e");
    uint64_t before = version(c);
    entry.origin = "code:other";
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &got), QN_PUT_EXISTS);
    assert_int_equal(got, first);
    assert_int_equal(schedule_put_one(c, &entry, first + 1, &got), QN_PUT_CHANGED);
    assert_int_equal(version(c), before);
    assert_int_equal(schedule_put_one(c, &entry, first, &got), QN_PUT_REPLACED);
    assert_int_not_equal(got, first);
    assert_int_not_equal(version(c), before);
}

/* What would be a missed tick by the new expression was none by the old one. */
static void changed_expression_catches_nothing_up(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    (void)schedule_put(c, "e");
    entry.task.payload = "new";
    entry.task.payload_size = 3;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_ANY, &revision), QN_PUT_REPLACED);
    assert_int_equal(schedule_look(c, "e").last_s, SCHEDULE_LAST_S);
    entry.cron = "*/2 * * * *";
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_ANY, &revision), QN_PUT_REPLACED);
    assert_true(schedule_look(c, "e").last_s >= SCHEDULE_NOW_S);
}

static void replaced_entry_keeps_its_pause_and_its_runs(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    (void)schedule_put(c, "e");
    assert_int_equal(schedule_tick(c, "e", SCHEDULE_LAST_S + 60), QN_TICKED);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    struct schedule_view before = schedule_look(c, "e");
    entry.jitter_ms = 5;
    assert_int_equal(schedule_put_one(c, &entry, before.revision, &revision), QN_PUT_REPLACED);
    struct schedule_view after = schedule_look(c, "e");
    assert_int_not_equal(after.paused_at_ms, 0);
    assert_int_equal(after.paused_at_ms, before.paused_at_ms);
    assert_int_equal(after.runs, 1);
    assert_int_equal(after.created_at_ms, before.created_at_ms);
    assert_int_equal(after.last_s, SCHEDULE_LAST_S + 60);
}

static void wrong_entries_are_refused_and_nothing_is_stored(struct contract *c)
{
    static char large[QN_ENTRY_SIZE_MAX + 1];
    static char name[QN_ENTRY_NAME_SIZE_MAX + 2];
    memset(name, 'n', QN_ENTRY_NAME_SIZE_MAX + 1);
    const char *const names[] = {"", "a b", "a/b", "{a}", "a\"", "\xc3\xa9", name};
    for (size_t i = 0; i < TEST_COUNT(names) + 4; i++) {
        struct qn_schedule_entry good = schedule_entry("good");
        struct qn_schedule_entry wrong = schedule_entry(i < TEST_COUNT(names) ? names[i] : "e");
        switch (i - TEST_COUNT(names)) {
        case 0:
            wrong.misfire_max = QN_MISFIRE_MAX + 1;
            break;
        case 1:
            wrong.jitter_ms = QN_JITTER_MS_MAX + 1;
            break;
        case 2:
            wrong.misfire = 4;
            break;
        case 3:
            wrong.task.payload = large;
            wrong.task.payload_size = sizeof large;
            break;
        default:
            break;
        }
        struct qn_put puts[] = {{.entry = &good}, {.entry = &wrong}};
        assert_int_equal(qn_schedule_put(c->broker, puts, 2, NULL), QUERN_E_INVALID);
        assert_false(schedule_look(c, "good").found);
    }
    name[QN_ENTRY_NAME_SIZE_MAX] = '\0';
    (void)schedule_put(c, name);
    assert_true(schedule_look(c, name).found);
}

/* --- Pause, remove ------------------------------------------------------------------ */

static void ticks_of_a_pause_are_missed_only_if_they_are_caught_up(struct contract *c)
{
    (void)schedule_put(c, "e");
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_RESUME), QUERN_E_STATE);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_E_STATE);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_CATCH_UP), QUERN_OK);
    assert_int_equal(schedule_look(c, "e").last_s, SCHEDULE_LAST_S);
    assert_int_equal(schedule_look(c, "e").paused_at_ms, 0);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    uint64_t before = version(c);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_RESUME), QUERN_OK);
    assert_true(schedule_look(c, "e").last_s >= SCHEDULE_NOW_S);
    assert_int_not_equal(version(c), before);
    assert_int_equal(schedule_pause(c, "none", QN_ENTRY_PAUSE), QUERN_E_NOT_FOUND);
}

static void last_tick_ahead_of_the_clock_is_set_back_only_by_hand(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    const int64_t ahead_s = SCHEDULE_NOW_S + 1000000;
    uint64_t revision = 0;
    entry.last_s = ahead_s;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_PAUSE), QUERN_OK);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_RESUME), QUERN_OK);
    assert_int_equal(schedule_look(c, "e").last_s, ahead_s);
    entry.cron = "0 * * * *";
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_ANY, &revision), QN_PUT_REPLACED);
    assert_int_equal(schedule_look(c, "e").last_s, ahead_s);
    assert_int_equal(schedule_pause(c, "e", QN_ENTRY_RESET), QUERN_OK);
    assert_in_range(schedule_look(c, "e").last_s, SCHEDULE_NOW_S, SCHEDULE_NOW_S + 60);
}

static void removed_entry_is_gone_and_its_history_stays(struct contract *c)
{
    static struct schedule_events events;
    uint64_t revision = schedule_put(c, "e");
    assert_int_equal(schedule_tick(c, "e", SCHEDULE_LAST_S + 60), QN_TICKED);
    const struct qn_entry_key other = {.queue = "default", .name = "e", .revision = revision + 1};
    assert_int_equal(qn_schedule_remove(c->broker, &other, NULL), QUERN_E_CONFLICT);
    uint64_t before = version(c);
    assert_int_equal(schedule_remove(c, "e"), QUERN_OK);
    assert_int_equal(schedule_remove(c, "e"), QUERN_E_NOT_FOUND);
    assert_false(schedule_look(c, "e").found);
    assert_int_not_equal(version(c), before);
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, 1);
}

/* --- List --------------------------------------------------------------------------- */

#define MANY 5000
struct names_seen {
    size_t count;
    size_t stop_at; /* 0: never */
    bool seen[MANY];
};

static bool see_name(const struct qn_schedule_entry *entry, void *user)
{
    struct names_seen *names = user;
    long number = strtol(entry->name + 1, NULL, 10);
    assert_in_range(number, 0, MANY - 1);
    assert_false(names->seen[number]);
    names->seen[number] = true;
    names->count++;
    return names->count != names->stop_at;
}

static void list_reports_each_entry_once(struct contract *c)
{
    static const size_t counts[] = {0, 1, 12, MANY};
    static struct names_seen names;
    quern_error err = {0};
    size_t stored = 0;
    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        while (stored < counts[i]) {
            static char texts[QN_BATCH_MAX][16];
            static struct qn_schedule_entry entries[QN_BATCH_MAX];
            static struct qn_put puts[QN_BATCH_MAX];
            size_t room = counts[i] - stored;
            size_t count = room < QN_BATCH_MAX ? room : QN_BATCH_MAX;
            for (size_t j = 0; j < count; j++) {
                (void)snprintf(texts[j], sizeof texts[j], "n%zu", stored + j);
                entries[j] = schedule_entry(texts[j]);
                entries[j].task.queue = j % 2 == 0 ? "default" : "other";
                puts[j] = (struct qn_put){.entry = &entries[j]};
            }
            assert_ok(qn_schedule_put(c->broker, puts, count, &err), err);
            stored += count;
        }
        memset(&names, 0, sizeof names);
        assert_ok(qn_schedule_list(c->broker, &(struct qn_entry_filter){0}, see_name, &names, &err),
                  err);
        assert_int_equal(names.count, counts[i]);
    }
    memset(&names, 0, sizeof names);
    names.stop_at = 700;
    assert_ok(qn_schedule_list(c->broker, &(struct qn_entry_filter){0}, see_name, &names, &err),
              err);
    assert_int_equal(names.count, 700);
}

static void list_is_filtered_by_queue_and_name(struct contract *c)
{
    static struct names_seen names;
    quern_error err = {0};
    (void)schedule_put(c, "n1");
    (void)schedule_put(c, "n2");
    struct qn_schedule_entry entry = schedule_entry("n3");
    uint64_t revision = 0;
    entry.task.queue = "other";
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    static const struct {
        const char *queue;
        const char *name;
        size_t count;
    } cases[] = {{"default", NULL, 2}, {"other", NULL, 1}, {NULL, "n3", 1},
                 {"default", "n3", 0}, {"none", NULL, 0},  {NULL, NULL, 3}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const struct qn_entry_filter filter = {.queue = cases[i].queue, .name = cases[i].name};
        memset(&names, 0, sizeof names);
        assert_ok(qn_schedule_list(c->broker, &filter, see_name, &names, &err), err);
        assert_int_equal(names.count, cases[i].count);
    }
}

/* --- History ------------------------------------------------------------------------ */

static void history_is_the_newest_first_and_bounded(struct contract *c)
{
    static struct schedule_events events;
    const int64_t count = QN_TICK_HISTORY_MAX + 50;
    struct qn_schedule_entry entry = schedule_entry("e");
    uint64_t revision = 0;
    entry.last_s = SCHEDULE_NOW_S - 2 * count;
    assert_int_equal(schedule_put_one(c, &entry, QN_REVISION_NONE, &revision), QN_PUT_ADDED);
    for (int64_t i = 1; i <= count; i++) {
        struct qn_tick tick = {.name = "e",
                               .revision = revision,
                               .known_s = entry.last_s + i - 1,
                               .tick_s = entry.last_s + i,
                               .what = i == count ? QN_TICK_LATE : QN_TICK_ENQUEUE,
                               .skipped = i == count ? 3 : 0};
        assert_int_equal(schedule_send(c->broker, 0, &tick), QN_TICKED);
    }
    schedule_history(c, "e", &events);
    assert_int_equal(events.count, QN_TICK_HISTORY_MAX);
    for (size_t i = 0; i < events.count; i++) {
        char id[64];
        int64_t tick_s = entry.last_s + count - (int64_t)i;
        (void)snprintf(id, sizeof id, "e@%" PRId64, tick_s);
        assert_int_equal(events.events[i].tick_s, tick_s);
        assert_int_equal(events.events[i].what, i == 0 ? QN_TICK_LATE : QN_TICK_ENQUEUE);
        assert_int_equal(events.events[i].skipped, i == 0 ? 3 : 0);
        assert_string_equal(events.events[i].id, id);
        assert_true(events.events[i].at_ms >= CONTRACT_NOW_MS);
    }
}

static void history_of_an_unknown_entry_is_empty(struct contract *c)
{
    static struct schedule_events events;
    schedule_history(c, "none", &events);
    assert_int_equal(events.count, 0);
}

static void old_history_is_pruned(struct contract *c)
{
    static struct schedule_events events;
    const char *const queues[] = {"default"};
    size_t removed = 0;
    quern_error err = {0};
    (void)schedule_put(c, "e");
    assert_int_equal(schedule_tick(c, "e", SCHEDULE_LAST_S + 60), QN_TICKED);
    for (int i = 0; i < 2; i++) {
        contract_advance(c, i == 0 ? QN_TICK_HISTORY_MS - 60000 : 120000);
        assert_ok(qn_broker_prune(c->broker, (struct qn_upkeep){{queues, 1}, 100}, &removed, &err),
                  err);
        schedule_history(c, "e", &events);
        assert_int_equal(events.count, i == 0 ? 1 : 0);
    }
}

/* Else each of its ticks would be refused, at night. */
static void priority_is_refused_at_once_where_there_is_none(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_NONE};
    quern_error err = {0};
    entry.task.priority = 5;
    if (qn_broker_has_priorities(c->broker)) {
        assert_ok(qn_schedule_put(c->broker, &put, 1, &err), err);
        assert_true(schedule_look(c, "e").found);
        return;
    }
    assert_int_equal(qn_schedule_put(c->broker, &put, 1, &err), QUERN_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "priority"));
    assert_false(schedule_look(c, "e").found);
}

static void limit_key_is_refused_at_once_where_there_is_none(struct contract *c)
{
    struct qn_schedule_entry entry = schedule_entry("e");
    struct qn_put put = {.entry = &entry, .expected = QN_REVISION_NONE};
    quern_error err = {0};
    entry.task.limit_key = "k";
    bool offered = qn_broker_has_limits(c->broker);
    assert_int_equal(qn_schedule_put(c->broker, &put, 1, &err),
                     offered ? QUERN_OK : QUERN_E_UNSUPPORTED);
    assert_int_equal(schedule_look(c, "e").found, offered);
}

/* Else one section would end a scheduler, and with it the entries of all others. */
static void section_that_the_broker_cannot_store_costs_no_other(struct contract *c)
{
    static const char text[] = "[good]\ncron = @hourly\ntype = t\n"
                               "[first]\ncron = @hourly\ntype = t\npriority = 5\n"
                               "[mine]\ncron = @hourly\ntype = t\nlimit_key = k\n";
    struct qn_zones zones;
    struct qn_conf conf;
    quern_error err = {0};
    assert_ok(qn_zones_init(&zones, NULL, &err), err);
    const struct qn_conf_terms terms = {
        .origin = "file:x", .zones = &zones, .now_ms = CONTRACT_NOW_MS, .broker = c->broker};
    assert_ok(qn_conf_parse((struct qn_bytes){text, sizeof text - 1}, &terms, &conf, &err), err);
    size_t missing = qn_broker_has_priorities(c->broker) ? 0 : 1;
    missing += qn_broker_has_limits(c->broker) ? 0 : 1;
    assert_int_equal(conf.entry_count, 3 - missing);
    assert_int_equal(conf.fault_count, missing);
    for (size_t i = 0; i < missing; i++) {
        assert_true(conf.faults[i].line == 7 || conf.faults[i].line == 11);
    }
    for (size_t i = 0; i < conf.entry_count; i++) {
        struct qn_put put = {.entry = &conf.entries[i], .expected = QN_REVISION_NONE};
        assert_ok(qn_schedule_put(c->broker, &put, 1, &err), err);
    }
    qn_conf_finish(&conf);
    qn_zones_finish(&zones);
}

static void queue_with_entries_is_removed_only_by_force(struct contract *c)
{
    quern_error err = {0};
    (void)schedule_put(c, "e");
    assert_int_equal(qn_broker_remove_queue(c->broker, "default", false, &err), QUERN_E_STATE);
    assert_non_null(strstr(err.text, "1 entry of the schedule"));
    assert_true(schedule_look(c, "e").found);
    uint64_t before = version(c);
    assert_ok(qn_broker_remove_queue(c->broker, "default", true, &err), err);
    assert_false(schedule_look(c, "e").found);
    assert_int_not_equal(version(c), before);
}

static const struct contract_test tests[] = {
    CONTRACT_TEST(every_field_of_an_entry_comes_back),
    CONTRACT_TEST(new_entry_begins_now),
    CONTRACT_TEST(equal_definition_is_left_alone),
    CONTRACT_TEST(put_expects_a_revision),
    CONTRACT_TEST(changed_expression_catches_nothing_up),
    CONTRACT_TEST(replaced_entry_keeps_its_pause_and_its_runs),
    CONTRACT_TEST(wrong_entries_are_refused_and_nothing_is_stored),
    CONTRACT_TEST(ticks_of_a_pause_are_missed_only_if_they_are_caught_up),
    CONTRACT_TEST(last_tick_ahead_of_the_clock_is_set_back_only_by_hand),
    CONTRACT_TEST(removed_entry_is_gone_and_its_history_stays),
    CONTRACT_TEST(list_reports_each_entry_once),
    CONTRACT_TEST(list_is_filtered_by_queue_and_name),
    CONTRACT_TEST(history_is_the_newest_first_and_bounded),
    CONTRACT_TEST(history_of_an_unknown_entry_is_empty),
    CONTRACT_TEST(old_history_is_pruned),
    CONTRACT_TEST(priority_is_refused_at_once_where_there_is_none),
    CONTRACT_TEST(limit_key_is_refused_at_once_where_there_is_none),
    CONTRACT_TEST(section_that_the_broker_cannot_store_costs_no_other),
    CONTRACT_TEST(queue_with_entries_is_removed_only_by_force),
};
CONTRACT_MAIN(tests)
