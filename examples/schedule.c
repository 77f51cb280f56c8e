/* SPDX-License-Identifier: MIT */
/* schedule.c - a program that enqueues by the clock.
 *
 * Any number of copies of it may run: one of them leads, and each tick is enqueued once. The hook
 * `before` changes the task of a tick, or refuses it. Usage: schedule [BROKER]. */
#include <quern/quern.h>
#include <stdio.h>

struct desk {
    quern_scheduler *scheduler;
    int ticks;
    char payload[32];
};

static bool before(const quern_tick *tick, quern_task *task, void *user)
{
    struct desk *desk = user;
    (void)tick;
    if (++desk->ticks == 2) {
        return false; /* not this one */
    }
    int size = snprintf(desk->payload, sizeof desk->payload, "report %d", desk->ticks);
    task->payload = desk->payload;
    task->payload_size = (size_t)size;
    return true;
}

static void after(const quern_tick *tick, void *user)
{
    struct desk *desk = user;
    printf("%s: tick %d %s\n", tick->name, desk->ticks, tick->vetoed ? "refused" : "enqueued");
    if (desk->ticks == 3) {
        quern_scheduler_stop(desk->scheduler);
    }
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "memory:schedule";
    struct desk desk = {.scheduler = NULL};
    /* In real life: .cron = "30 2 * * *", .zone = "Europe/Berlin" */
    const quern_entry entry = {.name = "report", .cron = "@every 1s", .misfire = "skip"};
    const quern_task task = {.type = "report:make"};
    const quern_scheduler_options options = {
        .program = "example", .before = before, .after = after, .user = &desk};
    quern_error err;
    bool ok = quern_scheduler_new(url, &options, &desk.scheduler, &err) == QUERN_OK &&
              quern_scheduler_register(desk.scheduler, &entry, &task, &err) == QUERN_OK &&
              quern_scheduler_run_until_signal(desk.scheduler, &err) == QUERN_OK;
    quern_scheduler_free(desk.scheduler);
    if (!ok) {
        fprintf(stderr, "schedule: %s\n", err.text);
    }
    return ok ? 0 : 1;
}
