/* SPDX-License-Identifier: MIT */
/* lib_deaths.c - the supervisor, and the reader of the records.
 *
 * One thread does everything: a step checks for dead workers, reads new records, and advances the
 * clock. The clock of a test with turned time is in a file that all processes map, so that they
 * agree. */
#include "lib_deaths.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib_mortal.h"
#include "quern/testing.h"

#define NOW_MS INT64_C(1800000000000)

static struct deaths *last; /* the one that is open */

/* --- Supervision -------------------------------------------------------------------- */

static void spawn(struct deaths *deaths, struct deaths_member *member)
{
    char concurrency[16];
    char clock[MORTAL_PATH_SIZE];
    (void)snprintf(concurrency, sizeof concurrency, "%u", member->concurrency);
    (void)snprintf(clock, sizeof clock, "%s.clock", deaths->site.journal);
    const char *args[] = {deaths->site.url,
                          deaths->site.journal,
                          member->host,
                          member->queues,
                          concurrency,
                          deaths->clock == NULL ? "-" : clock,
                          member->prefork ? "prefork" : "threads",
                          NULL};
    member->child = test_spawn("mortal", args);
}

void deaths_add(struct deaths *deaths, const struct deaths_member *member)
{
    assert_true(deaths->member_count < DEATHS_MEMBERS_MAX);
    struct deaths_member *mine = &deaths->members[deaths->member_count++];
    *mine = *member;
    spawn(deaths, mine);
}

void deaths_kill(struct deaths *deaths, size_t member)
{
    fault_kill(&deaths->site, &deaths->members[member].child);
    spawn(deaths, &deaths->members[member]);
}

static void supervise(struct deaths *deaths)
{
    for (size_t i = 0; i < deaths->member_count; i++) {
        struct deaths_member *member = &deaths->members[i];
        pid_t pid = member->child.pid;
        int code = test_child_poll(&member->child);
        if (code < 0) {
            continue;
        }
        bool fell = member->prefork && code == MORTAL_FAILED;
        member->fell += fell ? 1 : 0;
        if (code != 128 + SIGKILL && !fell) {
            fail_msg("worker %d ended with %d", (int)pid, code);
        }
        fault_lose(&deaths->site, pid);
        member->died++;
        deaths->died++;
        spawn(deaths, member);
    }
}

void deaths_break(struct deaths *deaths, const char *host, bool broken)
{
    char path[MORTAL_PATH_SIZE];
    mortal_path_of_broken(deaths->site.journal, host, path);
    if (!broken) {
        (void)unlink(path);
        return;
    }
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

void deaths_release(struct deaths *deaths)
{
    char path[MORTAL_PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s.go", deaths->site.journal);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

size_t deaths_held(struct deaths *deaths)
{
    size_t count = 0;
    for (size_t i = 0; i < deaths->site.task_count; i++) {
        char path[MORTAL_PATH_SIZE];
        (void)snprintf(path, sizeof path, "%s.held.%zu", deaths->site.journal, i);
        count += access(path, F_OK) == 0 ? 1 : 0;
    }
    return count;
}

/* --- The journal ----------------------------------------------------------------------- */

static void take_record(struct deaths *deaths, const struct fault_record *record)
{
    assert_true(record->task < deaths->site.task_count);
    struct deaths_task *task = &deaths->tasks[record->task];
    if (record->kind == FAULT_END) {
        task->end_at_ms = task->ends == 0 ? record->at_ms : task->end_at_ms;
        task->ends++;
        return;
    }
    task->first_at_ms = task->starts == 0 ? record->at_ms : task->first_at_ms;
    task->last_at_ms = record->at_ms;
    task->starts++;
}

static void read_journal(struct deaths *deaths)
{
    struct fault_record records[64];
    size_t count;
    do {
        ssize_t size = pread(deaths->journal, records, sizeof records, deaths->journal_offset);
        assert_true(size >= 0);
        count = (size_t)size / sizeof records[0];
        for (size_t i = 0; i < count; i++) {
            take_record(deaths, &records[i]);
        }
        deaths->journal_offset += (int64_t)(count * sizeof records[0]);
    } while (count > 0);
}

static void turn_clock(struct deaths *deaths)
{
    int64_t now_ms = test_now_ms();
    int64_t ms = (now_ms - deaths->turned_at_ms) * (int64_t)deaths->pace;
    deaths->turned_at_ms = now_ms;
    deaths->passed_ms += ms;
    if (deaths->clock != NULL && ms > 0) {
        quern_clock_advance(deaths->clock, ms);
        test_store_advance(&deaths->site.store, ms);
    }
}

void deaths_step(struct deaths *deaths)
{
    test_pause_ms(1);
    turn_clock(deaths);
    supervise(deaths);
    read_journal(deaths);
}

bool deaths_until(struct deaths *deaths, bool (*condition)(struct deaths *deaths, void *user),
                  void *user, int64_t within_ms)
{
    int64_t end_ms = test_now_ms() + within_ms;
    while (!condition(deaths, user)) {
        if (test_now_ms() >= end_ms) {
            return false;
        }
        deaths_step(deaths);
    }
    return true;
}

/* --- Tasks -------------------------------------------------------------------------- */

size_t deaths_put(struct deaths *deaths, const char *queue, const char *type, size_t count)
{
    quern_error err = {0};
    size_t first = deaths->site.task_count;
    quern_task *tasks = calloc(count + 1, sizeof *tasks);
    char(*numbers)[16] = calloc(count + 1, sizeof *numbers);
    assert_non_null(tasks);
    assert_non_null(numbers);
    assert_true(first + count <= DEATHS_TASKS_MAX);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(numbers[i], sizeof numbers[i], "%zu", first + i);
        tasks[i] = (quern_task){.type = type,
                                .queue = queue,
                                .id = numbers[i],
                                .payload = numbers[i],
                                .payload_size = strlen(numbers[i]),
                                .retention_ms = 24 * 3600 * INT64_C(1000)};
        deaths->tasks[first + i] = (struct deaths_task){.type = type, .queue = queue};
    }
    deaths->site.task_count += count;
    if (count > 0) {
        assert_ok(quern_client_enqueue_batch(deaths->client, tasks, count, NULL, &err), err);
    }
    for (size_t i = 0; i < count; i++) {
        deaths->tasks[first + i].put_at_ms = test_now_ms();
    }
    free(numbers);
    free(tasks);
    return first;
}

static bool is_kind(const struct deaths_task *task, const char *queue, const char *type)
{
    return (queue == NULL || strcmp(task->queue, queue) == 0) &&
           (type == NULL || strcmp(task->type, type) == 0);
}

size_t deaths_count(const struct deaths *deaths, const char *queue, const char *type)
{
    size_t count = 0;
    for (size_t i = 0; i < deaths->site.task_count; i++) {
        count += is_kind(&deaths->tasks[i], queue, type) ? 1 : 0;
    }
    return count;
}

size_t deaths_ended(const struct deaths *deaths, const char *queue, const char *type)
{
    size_t count = 0;
    for (size_t i = 0; i < deaths->site.task_count; i++) {
        count += is_kind(&deaths->tasks[i], queue, type) && deaths->tasks[i].ends > 0 ? 1 : 0;
    }
    return count;
}

/* How many are archived with such an error. */
static size_t count_archived(struct deaths *deaths, const char *queue, const char *type,
                             const char *text)
{
    const quern_task_filter filter = {
        .queue = queue, .type = type, .state = QUERN_TASK_ARCHIVED, .text = text, .limit = 10000};
    quern_task_list *list = NULL;
    quern_error err = {0};
    assert_ok(quern_inspector_tasks(deaths->inspector, &filter, &list, &err), err);
    size_t count = quern_task_list_size(list);
    quern_task_list_free(list);
    return count;
}

size_t deaths_archived(struct deaths *deaths, const char *queue, const char *type)
{
    return count_archived(deaths, queue, type, NULL);
}

size_t deaths_poisoned(struct deaths *deaths, const char *queue, const char *type)
{
    return count_archived(deaths, queue, type, "poison");
}

size_t deaths_charged(struct deaths *deaths, const char *queue, const char *type)
{
    const quern_task_filter filter = {.queue = queue, .type = type, .limit = 10000};
    quern_task_list *list = NULL;
    quern_error err = {0};
    size_t count = 0;
    assert_ok(quern_inspector_tasks(deaths->inspector, &filter, &list, &err), err);
    for (size_t i = 0; i < quern_task_list_size(list); i++) {
        count += quern_task_info_crash_count(quern_task_list_at(list, i)) > 0 ? 1 : 0;
    }
    quern_task_list_free(list);
    return count;
}

static int compare_ms(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

int64_t deaths_late_ms(const struct deaths *deaths, size_t from, size_t to, unsigned percent)
{
    assert_true(from < to);
    int64_t *late = calloc(to - from, sizeof *late);
    assert_non_null(late);
    for (size_t i = from; i < to; i++) {
        const struct deaths_task *task = &deaths->tasks[i];
        late[i - from] = (task->starts > 0 ? task->first_at_ms : test_now_ms()) - task->put_at_ms;
    }
    qsort(late, to - from, sizeof *late, compare_ms);
    int64_t answer = late[(to - from - 1) * percent / 100];
    free(late);
    return answer;
}

/* --- Beginning and end -------------------------------------------------------------- */

/* Processes left by a failed test must not disturb the next. */
static void end_last(void)
{
    for (size_t i = 0; last != NULL && i < last->member_count; i++) {
        test_child_kill(&last->members[i].child);
    }
    last = NULL;
}

struct deaths *deaths_open(unsigned pace)
{
    quern_error err = {0};
    end_last();
    struct deaths *deaths = calloc(1, sizeof *deaths);
    assert_non_null(deaths);
    last = deaths;
    fault_site_open_at(&deaths->site, pace == 0 ? 0 : NOW_MS);
    deaths->pace = pace;
    deaths->turned_at_ms = test_now_ms();
    if (pace != 0) {
        char path[MORTAL_PATH_SIZE];
        (void)snprintf(path, sizeof path, "%s.clock", deaths->site.journal);
        deaths->clock = mortal_map_clock(path, O_CREAT);
        qn_clock_init(deaths->clock, NOW_MS, NOW_MS);
    }
    deaths->journal = open(deaths->site.journal, O_RDONLY | O_CLOEXEC);
    assert_true(deaths->journal >= 0);
    const quern_client_options client = {.clock = deaths->clock};
    const quern_inspector_options inspector = {.clock = deaths->clock, .create = true};
    assert_ok(quern_client_open(deaths->site.url, &client, &deaths->client, &err), err);
    assert_ok(quern_inspector_open(deaths->site.url, &inspector, &deaths->inspector, &err), err);
    return deaths;
}

static bool is_to_die(uint64_t task, const void *user)
{
    const struct deaths *deaths = user;
    const char *type = deaths->tasks[task].type;
    static const char *const types[] = {"fatal",  "command", "parent",  "twice",
                                        "orphan", "heir",    "usurper", "despot"};
    for (size_t i = 0; i < TEST_COUNT(types); i++) {
        if (strcmp(type, types[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void show_violation(const quern_finding *finding, void *user)
{
    size_t *violated = user;
    if (finding->severity >= 2) {
        print_error("%s %s/%s: %s\n", finding->invariant, finding->queue, finding->id,
                    finding->text);
        *violated += 1;
    }
}

void deaths_close(struct deaths *deaths)
{
    quern_error err = {0};
    size_t violated = 0;
    for (size_t i = 0; i < deaths->member_count; i++) {
        test_child_send(&deaths->members[i].child, 'q');
    }
    for (size_t i = 0; i < deaths->member_count; i++) {
        assert_int_equal(test_child_join(&deaths->members[i].child), 0);
    }
    (void)fault_journal_judge_but(&deaths->site, is_to_die, deaths);
    assert_ok(quern_inspector_check(deaths->inspector, false, show_violation, &violated, &err),
              err);
    assert_int_equal(violated, 0);
    quern_inspector_free(deaths->inspector);
    quern_client_free(deaths->client);
    if (deaths->clock != NULL) {
        (void)munmap(deaths->clock, sizeof *deaths->clock);
    }
    (void)close(deaths->journal);
    last = NULL;
    fault_site_close(&deaths->site);
    free(deaths);
}
