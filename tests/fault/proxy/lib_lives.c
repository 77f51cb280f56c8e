/* SPDX-License-Identifier: MIT */
/* lib_lives.c - the handlers, the enqueueing, and the verdict.
 *
 * A payload is the number of its task, so that a task that was stored twice under two ids is found.
 */
#include "lib_lives.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "task/lifecycle.h"

#define BATCH 6
#define SET_SIZE 8
#define REST_EACH 40 /* every so many-th task rests */

const quern_queue lives_queues[3] = {{.name = "default"}, {.name = "low"}, {.name = "other"}};

struct lives *lives_new(void)
{
    struct lives *lives = calloc(1, sizeof *lives);
    assert_non_null(lives);
    (void)pthread_mutex_init(&lives->mutex, NULL);
    lives->began_s = (int64_t)time(NULL);
    return lives;
}

void lives_free(struct lives *lives)
{
    (void)pthread_mutex_destroy(&lives->mutex);
    free(lives);
}

/* With the mutex held. */
static void complain(struct lives *lives, const char *what, size_t number, const char *why)
{
    lives->wrong++;
    (void)printf("%s %zu: %s\n", what, number, why);
}

/* --- Runs --------------------------------------------------------------------------- */

static void note_start(struct lives *lives, struct life *life, const quern_run *run, size_t number)
{
    quern_cause cause = quern_run_cause(run);
    bool is_first = cause == QUERN_CAUSE_NONE || cause == QUERN_CAUSE_GIVEN_BACK;
    (void)pthread_mutex_lock(&lives->mutex);
    if (life->starts > 0 && strcmp(life->id, quern_run_task_id(run)) != 0) {
        complain(lives, "task", number, "was stored twice");
    } else if (life->starts > 0 && is_first) {
        complain(lives, "task", number, "runs again without a cause");
    } else if (life->starts > 0 && quern_run_fence(run) <= life->fence) {
        complain(lives, "task", number, "runs again with an old fence");
    }
    lives->extra[cause] += life->starts > 0 ? 1 : 0;
    (void)snprintf(life->id, sizeof life->id, "%s", quern_run_task_id(run));
    life->fence = quern_run_fence(run);
    life->starts++;
    (void)pthread_mutex_unlock(&lives->mutex);
}

static void note_end(struct lives *lives, struct life *life)
{
    (void)pthread_mutex_lock(&lives->mutex);
    lives->ended += life->ends++ == 0 ? 1 : 0;
    (void)pthread_mutex_unlock(&lives->mutex);
}

static quern_outcome run_task(quern_run *run, const quern_task *task, void *user)
{
    struct lives *lives = user;
    size_t number = strtoul(task->payload, NULL, 10);
    TEST_REQUIRE(number < LIVES_MAX);
    struct life *life = &lives->tasks[number];
    note_start(lives, life, run, number);
    struct pollfd cancelled = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    (void)poll(&cancelled, 1, number % REST_EACH == 0 ? LIVES_REST_MS : (int)(number % 4));
    note_end(lives, life);
    return QUERN_DONE;
}

/* NAME@2026-11-23T01:30:00Z */
static quern_outcome run_tick(quern_run *run, const quern_task *task, void *user)
{
    struct lives *lives = user;
    struct tm moment = {0};
    const char *at = strchr(task->id, '@');
    TEST_REQUIRE(at != NULL && strptime(at + 1, "%Y-%m-%dT%H:%M:%SZ", &moment) != NULL);
    int64_t second = (int64_t)timegm(&moment) - lives->began_s;
    TEST_REQUIRE(second >= 0 && second < LIVES_MAX);
    note_start(lives, &lives->ticks[second], run, (size_t)second);
    note_end(lives, &lives->ticks[second]);
    return QUERN_DONE;
}

/* The task that an aggregator made: its payload are the numbers of its members. */
static quern_outcome run_sum(quern_run *run, const quern_task *task, void *user)
{
    struct lives *lives = user;
    char *at = (char *)(uintptr_t)task->payload;
    while (*at != '\0') {
        size_t number = strtoul(at, &at, 10);
        at += *at == ' ' ? 1 : 0;
        TEST_REQUIRE(number < LIVES_MAX);
        note_start(lives, &lives->members[number], run, number);
        note_end(lives, &lives->members[number]);
    }
    return QUERN_DONE;
}

static quern_outcome join(quern_aggregation *aggregation, const quern_task *const *members,
                          size_t count, void *user)
{
    (void)user;
    char text[SET_SIZE * 12 + 1] = "";
    quern_error err = {0};
    TEST_REQUIRE(count <= SET_SIZE);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%.10s ",
                       (const char *)members[i]->payload);
    }
    const quern_task sum = {.type = "sum", .payload = text, .payload_size = strlen(text)};
    quern_status status = quern_aggregation_store(aggregation, &sum, &err);
    return status == QUERN_OK ? QUERN_DONE
                              : quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", err.text);
}

quern_mux *lives_mux(struct lives *lives)
{
    quern_mux *mux = NULL;
    quern_error err = {0};
    const quern_group_options groups = {.max_size = SET_SIZE, .grace_ms = 1000};
    assert_ok(quern_mux_new(&mux, &err), err);
    assert_ok(quern_mux_handle(mux, "t", run_task, lives, NULL, &err), err);
    assert_ok(quern_mux_handle(mux, "tick", run_tick, lives, NULL, &err), err);
    assert_ok(quern_mux_handle(mux, "sum", run_sum, lives, NULL, &err), err);
    assert_ok(quern_mux_aggregate(mux, "*", join, lives, &groups, &err), err);
    return mux;
}

/* --- Enqueueing --------------------------------------------------------------------- */

struct draft {
    quern_task tasks[BATCH];
    char payloads[BATCH][16];
    char ids[BATCH][16];
    struct life *lives[BATCH];
    size_t count;
};

static void write_draft(struct lives *lives, struct draft *draft, uint64_t dice)
{
    bool is_member = dice % 5 == 0;
    bool has_id = dice / 5 % 2 == 0;
    bool is_unique = dice / 10 % 3 == 0;
    draft->count = dice / 30 % 2 == 0 ? 1 : 1 + dice / 60 % BATCH;
    for (size_t i = 0; i < draft->count; i++) {
        size_t number = is_member ? lives->member_count++ : lives->task_count++;
        TEST_REQUIRE(number < LIVES_MAX);
        (void)snprintf(draft->payloads[i], sizeof draft->payloads[i], "%zu", number);
        (void)snprintf(draft->ids[i], sizeof draft->ids[i], "%c%zu", is_member ? 'm' : 't', number);
        draft->lives[i] = is_member ? &lives->members[number] : &lives->tasks[number];
        draft->tasks[i] = (quern_task){.type = is_member ? "m" : "t",
                                       .id = has_id ? draft->ids[i] : NULL,
                                       .queue = lives_queues[(dice / 360 + i) % 3].name,
                                       .payload = draft->payloads[i],
                                       .payload_size = strlen(draft->payloads[i]),
                                       .unique_ms = is_unique ? 600000 : 0,
                                       .group = is_member ? "g" : NULL,
                                       .delay_ms = !is_member && dice / 1080 % 4 == 0 ? 200 : 0};
    }
}

/* With the mutex held. */
static void note_fate(struct lives *lives, struct life *life, const quern_enqueue_result *result)
{
    size_t number = strtoul(result->id[0] == '\0' ? "0" : result->id + 1, NULL, 10);
    switch ((int)result->status) {
    case QUERN_OK:
        life->fate = LIVES_STORED;
        break;
    case QUERN_E_UNKNOWN:
        life->fate = LIVES_UNKNOWN;
        lives->unknown++;
        if (result->id[0] == '\0') {
            complain(lives, "task", number, "is unknown, and its id is not reported");
        }
        break;
    case QUERN_E_CONFLICT:
    case QUERN_E_DUPLICATE:
        complain(lives, "task", number, "was refused as a duplicate of itself");
        break;
    default:
        life->fate = LIVES_REFUSED;
        lives->refused++;
    }
}

void lives_enqueue(struct lives *lives, quern_client *client, uint64_t dice)
{
    struct draft draft = {0};
    quern_enqueue_result results[BATCH] = {{0}};
    quern_error err = {0};
    write_draft(lives, &draft, dice);
    quern_status status =
        quern_client_enqueue_batch(client, draft.tasks, draft.count, results, &err);
    (void)pthread_mutex_lock(&lives->mutex);
    for (size_t i = 0; i < draft.count; i++) {
        note_fate(lives, draft.lives[i], &results[i]);
    }
    if (status != QUERN_OK) {
        (void)printf("enqueue: %s\n", err.text);
    }
    (void)pthread_mutex_unlock(&lives->mutex);
}

/* --- The verdict -------------------------------------------------------------------- */

static bool is_open(const struct life *life)
{
    return (life->fate == LIVES_STORED && life->ends == 0) || life->starts > life->ends;
}

bool lives_are_over(void *user)
{
    struct lives *lives = user;
    bool open = false;
    (void)pthread_mutex_lock(&lives->mutex);
    for (size_t i = 0; i < lives->task_count || i < lives->member_count; i++) {
        open = open || is_open(&lives->tasks[i]) || is_open(&lives->members[i]);
    }
    (void)pthread_mutex_unlock(&lives->mutex);
    return !open;
}

static void judge_kind(struct lives *lives, const char *kind, const struct life *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct life *life = &all[i];
        if (life->fate == LIVES_STORED && life->ends == 0) {
            complain(lives, kind, i, "is lost or stuck");
        }
        if (life->fate == LIVES_REFUSED && life->starts > 0) {
            complain(lives, kind, i, "was reported as failed, and has run");
        }
    }
}

static size_t judge_ticks(struct lives *lives)
{
    size_t first = 0;
    size_t last = 0;
    for (size_t i = 0; i < LIVES_MAX; i++) {
        bool has_run = lives->ticks[i].starts > 0;
        first = has_run && first == 0 ? i : first;
        last = has_run ? i : last;
    }
    for (size_t i = first; i < last; i++) {
        if (lives->ticks[i].starts == 0) {
            complain(lives, "second", i, "has no tick");
        }
    }
    return last - first;
}

bool lives_have_ticked(struct lives *lives)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&lives->mutex);
    for (size_t i = 0; i < LIVES_MAX; i++) {
        count += lives->ticks[i].starts > 0;
    }
    (void)pthread_mutex_unlock(&lives->mutex);
    return count > 1;
}

void lives_judge(struct lives *lives)
{
    (void)pthread_mutex_lock(&lives->mutex);
    judge_kind(lives, "task", lives->tasks, lives->task_count);
    judge_kind(lives, "member", lives->members, lives->member_count);
    size_t ticks = judge_ticks(lives);
    (void)printf("%zu tasks, %zu members, %zu ticks; %zu unknown, %zu refused\n", lives->task_count,
                 lives->member_count, ticks, lives->unknown, lives->refused);
    for (size_t cause = 0; cause < TEST_COUNT(lives->extra); cause++) {
        if (lives->extra[cause] > 0) {
            (void)printf("%zu extra runs: %s\n", lives->extra[cause],
                         quern_cause_name((quern_cause)cause));
        }
    }
    size_t wrong = lives->wrong;
    (void)pthread_mutex_unlock(&lives->mutex);
    assert_int_equal(wrong, 0);
    assert_true(ticks > 0);
}
