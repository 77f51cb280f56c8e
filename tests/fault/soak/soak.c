/* SPDX-License-Identifier: MIT */
/* soak.c - a long run over one broker, in which everything happens at random: workers, their
 * children and zygotes are killed, workers are stopped, the wall clock jumps, the server restarts
 * or is stopped, connections are cut. At the end every task must be done, once or with a cause for
 * each extra run. Half of the workers have children.
 *
 * Short in `make check`; QUERN_SOAK_SECONDS sets another duration (scripts/soak). */
#include "soak.h"

#include <signal.h>
#include <stdlib.h>

#include "base/random.h"
#include "lib_proxy.h"

#define WORKERS ((size_t)4)
#define EVENTS_MAX 100000
#define PATIENCE_MS 180000
#define SHORT_S 3
#define DYING_MS 1000
/* Those that no lease can end by: fault.proxy_seed has the others. */
#define LINK_FAULTS                                                                                \
    (PROXY_CUTS | PROXY_BIT(PROXY_RESET_BEFORE) | PROXY_BIT(PROXY_RESET_AFTER) |                   \
     PROXY_BIT(PROXY_DELAY))
#define LATE_MS 200 /* a pause of 5 ms that takes this long */

/* --- The site --------------------------------------------------------------------------- */

struct soak {
    struct fault_site site;
    const char *url; /* what workers and client use */
    struct qn_random random;
    struct test_redis *redis; /* NULL: not over Redis */
    struct proxy *proxy;
    struct test_child workers[WORKERS];
    int64_t stopped_at_ms[WORKERS]; /* 0: it runs */
    int64_t resume_at_ms[WORKERS];
    struct soak_event *events;
    size_t event_count;
    int64_t clock_back_at_ms; /* 0: the wall clock is right */
    int64_t turned_back_at_ms;
    int64_t uncut_at_ms;
    int64_t server_at_ms; /* when the server comes back; 0: it is up */
    int64_t server_gone_ms;
    bool server_stopped;
    struct soak_times server_times; /* back, until the first start */
    int64_t server_back_ms;         /* 0: a run has started since */
    size_t journal_size;
    size_t kills, children, zygotes, stops, jumps, restarts, ends;
    struct soak_feeder feeder;
};

static void note_event(struct soak *soak, struct soak_event event)
{
    assert_true(soak->event_count < EVENTS_MAX);
    soak->events[soak->event_count++] = event;
}

static void spawn(struct soak *soak, size_t index)
{
    const char *pool = index % 2 == 0 ? "prefork" : "threads";
    const char *args[] = {soak->url, soak->site.journal, pool, NULL};
    soak->workers[index] = test_spawn("worker", args);
}

/* --- Faults ------------------------------------------------------------------------------ */

static uint64_t dice(struct soak *soak, uint64_t below)
{
    return qn_random_below(&soak->random, below);
}

/* It was stopped until now; it may take a moment until it notices that its leases are gone. */
static void note_stop(struct soak *soak, size_t index, int64_t now_ms)
{
    int64_t from_ms = soak->stopped_at_ms[index];
    bool careless = now_ms - from_ms >= SOAK_CARELESS_MS;
    if (from_ms != 0) {
        note_event(soak, (struct soak_event){.kind = careless ? SOAK_STOPPED : SOAK_HINDERED,
                                             .pid = soak->workers[index].pid,
                                             .from_ms = from_ms,
                                             .until_ms = now_ms});
    }
    soak->stopped_at_ms[index] = 0;
}

/* The server, or all processes here, for lack of a processor. */
static void note_hindrance(struct soak *soak, int64_t from_ms, int64_t now_ms)
{
    note_event(soak,
               (struct soak_event){.kind = SOAK_HINDERED, .from_ms = from_ms, .until_ms = now_ms});
}

static void kill_one(struct soak *soak, int64_t now_ms)
{
    size_t index = dice(soak, WORKERS);
    note_stop(soak, index, now_ms);
    struct soak_event event = {
        .kind = SOAK_LOST, .pid = soak->workers[index].pid, .from_ms = now_ms};
    test_child_kill(&soak->workers[index]);
    event.until_ms = test_now_ms();
    note_event(soak, event);
    soak->kills++;
    spawn(soak, index);
}

/* Of a worker that has children. */
static size_t dice_prefork(struct soak *soak)
{
    return 2 * dice(soak, WORKERS / 2);
}

static void kill_child(struct soak *soak, int64_t now_ms)
{
    int worker = soak->workers[dice_prefork(soak)].pid;
    int child = soak_find_below(worker, "quern-child", dice(soak, UINT32_MAX));
    if (child != 0 && kill(child, SIGKILL) == 0) {
        note_event(soak, (struct soak_event){.kind = SOAK_CHILD,
                                             .pid = worker,
                                             .from_ms = now_ms,
                                             .until_ms = test_now_ms()});
        soak->children++;
    }
}

/* Its children die with it, each a moment later, and then the worker ends, see supervise. */
static void kill_zygote(struct soak *soak, int64_t now_ms)
{
    int worker = soak->workers[dice_prefork(soak)].pid;
    int zygote = soak_find_below(worker, "quern-zygote", 0);
    if (zygote != 0 && kill(zygote, SIGKILL) == 0) {
        note_event(soak, (struct soak_event){.kind = SOAK_LOST,
                                             .pid = worker,
                                             .from_ms = now_ms,
                                             .until_ms = test_now_ms() + DYING_MS});
        soak->zygotes++;
    }
}

static void stop_one(struct soak *soak, int64_t now_ms)
{
    size_t index = dice(soak, WORKERS);
    if (soak->stopped_at_ms[index] == 0) {
        (void)kill(soak->workers[index].pid, SIGSTOP);
        soak->stopped_at_ms[index] = now_ms;
        soak->resume_at_ms[index] = now_ms + 100 + (int64_t)dice(soak, 2 * SOAK_LEASE_MS);
        soak->stops++;
    }
}

static void resume(struct soak *soak, int64_t now_ms, bool all)
{
    for (size_t i = 0; i < WORKERS; i++) {
        if (soak->stopped_at_ms[i] == 0 || (!all && now_ms < soak->resume_at_ms[i])) {
            continue;
        }
        (void)kill(soak->workers[i].pid, SIGCONT);
        note_stop(soak, i, now_ms);
    }
}

static void jump(struct soak *soak, int64_t now_ms)
{
    soak_clock_jump((int64_t)dice(soak, 7200000) - 3600000);
    soak->clock_back_at_ms = now_ms + (int64_t)dice(soak, 3000);
    soak->jumps++;
}

/* Its leases are on that clock. */
static void turn_server(struct soak *soak, int64_t now_ms, int64_t by_ms)
{
    test_redis_shift(soak->redis, by_ms * 1000);
    soak->turned_back_at_ms = by_ms == 0 ? 0 : now_ms + (int64_t)dice(soak, 3000);
    note_event(soak, (struct soak_event){.kind = SOAK_TURNED,
                                         .from_ms = now_ms,
                                         .until_ms = now_ms + SOAK_LEASE_MS});
}

static void end_server(struct soak *soak, int64_t now_ms)
{
    struct test_redis *redis = soak->redis;
    soak->server_stopped = dice(soak, 4) == 0;
    if (soak->server_stopped) {
        (void)kill(redis->pid, SIGSTOP);
    } else if (dice(soak, 2) == 0) {
        test_redis_kill(redis);
    } else {
        test_redis_end(redis);
    }
    soak->server_gone_ms = now_ms;
    soak->server_at_ms = now_ms + 50 + (int64_t)dice(soak, 1500);
    soak->restarts++;
}

static void start_server(struct soak *soak)
{
    struct test_redis *redis = soak->redis;
    if (soak->server_stopped) {
        (void)kill(redis->pid, SIGCONT);
    } else {
        test_redis_launch(redis);
    }
    test_redis_await(redis);
    soak->server_at_ms = 0;
    soak->server_back_ms = test_now_ms();
    note_hindrance(soak, soak->server_gone_ms, soak->server_back_ms);
    soak->journal_size = fault_journal_size(&soak->site);
}

static void do_something(struct soak *soak, int64_t now_ms)
{
    uint64_t what = dice(soak, 100);
    bool redis = soak->redis != NULL;
    if (what < 25) {
        kill_one(soak, now_ms);
    } else if (what < 45) {
        kill_child(soak, now_ms);
    } else if (what < 50) {
        kill_zygote(soak, now_ms);
    } else if (what < 65) {
        stop_one(soak, now_ms);
    } else if (what < 70) {
        jump(soak, now_ms);
    } else if (redis && what < 85) {
        proxy_dice(soak->proxy, 1 + (unsigned)dice(soak, 50), LINK_FAULTS, 0);
        soak->uncut_at_ms = now_ms + (int64_t)dice(soak, 4000);
    } else if (redis && what < 95 && soak->server_at_ms == 0) {
        end_server(soak, now_ms);
    } else if (redis && soak->server_at_ms == 0) {
        turn_server(soak, now_ms, (int64_t)dice(soak, 20000) - 10000);
    }
}

/* A worker that ended on its own is started again, as by a supervisor. */
static void supervise(struct soak *soak, int64_t now_ms)
{
    for (size_t i = 0; i < WORKERS; i++) {
        int pid = soak->workers[i].pid;
        int code = test_child_poll(&soak->workers[i]);
        if (code >= 0) {
            print_message("worker %d ended by itself with %d\n", pid, code);
            note_event(soak, (struct soak_event){.kind = SOAK_LOST,
                                                 .pid = pid,
                                                 .from_ms = now_ms,
                                                 .until_ms = test_now_ms()});
            soak->ends++;
            spawn(soak, i);
        }
    }
}

/* Ends the faults whose time is over; all: every fault. */
static void heal(struct soak *soak, int64_t now_ms, bool all)
{
    resume(soak, now_ms, all);
    if (soak->clock_back_at_ms != 0 && (all || now_ms >= soak->clock_back_at_ms)) {
        soak_clock_jump(0);
        soak->clock_back_at_ms = 0;
    }
    if (soak->server_at_ms != 0 && (all || now_ms >= soak->server_at_ms)) {
        start_server(soak);
    }
    if (soak->turned_back_at_ms != 0 && (all || now_ms >= soak->turned_back_at_ms)) {
        turn_server(soak, now_ms, 0);
    }
    if (soak->proxy != NULL && (all || now_ms >= soak->uncut_at_ms)) {
        proxy_dice(soak->proxy, 0, 0, 0);
    }
    if (soak->server_back_ms != 0 && fault_journal_size(&soak->site) > soak->journal_size) {
        soak_note_ms(&soak->server_times, test_now_ms() - soak->server_back_ms);
        soak->server_back_ms = 0;
    }
    supervise(soak, now_ms);
}

/* --- The end ----------------------------------------------------------------------------- */

/* There are no more faults: every task must come to its end. */
static void settle(struct soak *soak)
{
    int64_t end_ms = test_now_ms() + PATIENCE_MS;
    while (soak_read_remainder(soak->site.url).open > 0 && test_now_ms() < end_ms) {
        heal(soak, test_now_ms(), true);
        test_pause_ms(50);
    }
}

static void judge(struct soak *soak)
{
    size_t count = 0;
    struct fault_record *records = fault_journal_read(&soak->site, &count);
    size_t stored = atomic_load(&soak->feeder.stored);
    const struct soak_journal journal = {.records = records,
                                         .count = count,
                                         .events = soak->events,
                                         .event_count = soak->event_count,
                                         .task_count = SOAK_TASKS_MAX};
    struct soak_verdict verdict = {0};
    bool *ends = calloc(SOAK_TASKS_MAX, sizeof *ends);
    assert_non_null(ends);
    soak_judge(&journal, ends, &verdict);
    struct soak_remainder left = soak_read_remainder(soak->site.url);
    if (left.open > 0) {
        soak_show_stuck(soak->site.url);
    }
    size_t lost = stored > left.size ? stored - left.size : 0;
    verdict.unexplained += soak_check(soak->site.url, ends, stored);
    print_message("%s: %zu tasks, %zu kills of workers, %zu of children, %zu of zygotes, %zu stops,"
                  " %zu jumps, %zu restarts, %zu workers ended by themselves, %zu extra starts,"
                  " %zu of them after a child, %zu tasks convicted by our kills\n",
                  soak->site.store.broker, stored, soak->kills, soak->children, soak->zygotes,
                  soak->stops, soak->jumps, soak->restarts, soak->ends, verdict.extra,
                  verdict.child, (size_t)left.archived);
    assert_in_range(verdict.child, 0, soak->children);
    soak_print_times("  dead worker to running again", &verdict.worker[0]);
    soak_print_times("  the same, task charged twice", &verdict.worker[1]);
    soak_print_times("  the same, charged more often", &verdict.worker[2]);
    soak_print_times("  Redis back to first start", &soak->server_times);
    print_message("%s: %zu lost, %zu stuck, %zu unexplained\n", soak->site.store.broker, lost,
                  (size_t)left.open, verdict.unexplained);
    assert_int_equal(lost + left.open + verdict.unexplained, 0);
    free(ends);
    free(records);
}

static struct soak *soak_open(void)
{
    struct soak *soak = calloc(1, sizeof *soak);
    assert_non_null(soak);
    soak->events = calloc(EVENTS_MAX, sizeof *soak->events);
    assert_non_null(soak->events);
    uint64_t seed = test_seed();
    qn_random_init_seed(&soak->random, seed);
    fault_site_open(&soak->site);
    /* Over Redis the client is on another machine: a delay is a moment by its own clock. */
    soak_clock_open(soak->site.journal, test_store_is(&soak->site.store, "sqlite"));
    soak->url = soak->site.url;
    if (test_store_is(&soak->site.store, "redis")) {
        /* Acknowledged writes must survive any end. */
        soak->redis = test_store_server();
        test_redis_configure(soak->redis, "appendfsync always");
        (void)test_redis_do(soak->redis, "CONFIG SET appendfsync always");
        soak->proxy = proxy_start_for(soak->redis, seed);
        soak->url = proxy_url(soak->proxy);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        spawn(soak, i);
    }
    soak_feed_start(&soak->feeder, soak->url);
    return soak;
}

static void soak_close(struct soak *soak)
{
    for (size_t i = 0; i < WORKERS; i++) {
        test_child_send(&soak->workers[i], 'q');
        assert_int_equal(test_child_join(&soak->workers[i]), 0);
    }
    if (soak->proxy != NULL) {
        proxy_stop(soak->proxy);
    }
    soak_clock_close();
    fault_site_close(&soak->site);
    free(soak->events);
    free(soak);
}

static void nothing_is_lost_stuck_or_unexplained_whatever_happens(void **state)
{
    (void)state;
    const char *text = getenv("QUERN_SOAK_SECONDS");
    int64_t end_ms = test_now_ms() + 1000 * (text == NULL ? SHORT_S : strtol(text, NULL, 10));
    struct soak *soak = soak_open();
    int64_t next_ms = test_now_ms() + 500;
    int64_t before_ms = test_now_ms();
    while (test_now_ms() < end_ms) {
        int64_t now_ms = test_now_ms();
        if (now_ms - before_ms >= LATE_MS) {
            note_hindrance(soak, before_ms, now_ms);
        }
        before_ms = now_ms;
        if (now_ms >= next_ms) {
            do_something(soak, now_ms);
            next_ms = now_ms + 100 + (int64_t)dice(soak, 1200);
        }
        heal(soak, now_ms, false);
        test_pause_ms(5);
    }
    heal(soak, test_now_ms(), true);
    soak_feed_stop(&soak->feeder);
    settle(soak);
    judge(soak);
    soak_close(soak);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_is_lost_stuck_or_unexplained_whatever_happens),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "worker", .main = soak_worker}};
    const struct test_group group = {"soak", tests, TEST_COUNT(tests), roles, TEST_COUNT(roles)};
    return test_main_over_brokers(argc, argv, &group);
}
