/* SPDX-License-Identifier: MIT */
/* ceiling.c - the figures to compare quern's with: bare loops without the library.
 *
 *     bench_ceiling SOCKET enqueue|drain|e2e TASKS     our scripts, one connection, batches of
 *         128, one request in flight; messages are not decoded
 *     bench_ceiling SOCKET least-enqueue|least-drain TASKS     the barest scripts that keep asynq's
 *         data (least.c): the cost of the schema itself
 *     bench_ceiling SOCKET idle SAMPLES     from an enqueue to the message of the task in another
 *         process that slept, by our scripts (idle.c)
 *
 * Prints tasks a second and us of Redis CPU per task; idle: p50, p99 and max in ms. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"

static void enqueue(const char *socket, size_t count)
{
    static struct caller caller;
    static struct bare_tasks tasks;
    bare_open(&caller, socket);
    bare_tasks_init(&tasks);
    for (size_t left = count; left > 0;) {
        size_t batch = left < BATCH ? left : BATCH;
        bare_tasks_next(&tasks, batch);
        bare_enqueue(&caller, &tasks, batch);
        freeReplyObject(caller_receive(&caller));
        left -= batch;
    }
    bare_tasks_finish(&tasks);
    caller_close(&caller);
}

static void drain(const char *socket, size_t count)
{
    static struct caller caller;
    redisReply *leased = NULL;
    bare_open(&caller, socket);
    for (size_t done = 0; done < count;) {
        size_t held = bare_done(&caller, leased);
        bare_lease(&caller, "128");
        if (held > 0) {
            freeReplyObject(caller_receive(&caller));
            done += held;
        }
        freeReplyObject(leased);
        leased = caller_receive(&caller);
    }
    freeReplyObject(leased);
    caller_close(&caller);
}

/* The client in a process of its own. */
static void end_to_end(const char *socket, size_t count)
{
    pid_t client = fork();
    if (client == 0) {
        enqueue(socket, count);
        _exit(0);
    }
    drain(socket, count);
    (void)waitpid(client, NULL, 0);
}

static void timed(void work(const char *socket, size_t count), const char *socket, size_t count)
{
    double cpu = server_cpu(socket);
    int64_t start_ns = now_ns();
    work(socket, count);
    double seconds = (double)(now_ns() - start_ns) / 1e9;
    cpu = server_cpu(socket) - cpu;
    printf("%.0f %.2f\n", (double)count / seconds, cpu * 1e6 / (double)count);
}

static const struct loop {
    const char *name;
    void (*work)(const char *socket, size_t count);
    bool drains; /* so the tasks must be there before */
} loops[] = {
    {"enqueue", enqueue, false},        {"drain", drain, true},
    {"e2e", end_to_end, false},         {"least-enqueue", least_enqueue, false},
    {"least-drain", least_drain, true},
};

int main(int argc, char **argv)
{
    if (argc != 4) {
        die("usage: bench_ceiling SOCKET enqueue|drain|e2e|least-enqueue|least-drain|idle COUNT");
    }
    const char *socket = argv[1];
    size_t count = strtoul(argv[3], NULL, 10);
    if (strcmp(argv[2], "idle") == 0) {
        idle(socket, count);
        return 0;
    }
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        if (strcmp(argv[2], loops[i].name) == 0) {
            if (loops[i].drains) {
                enqueue(socket, count);
            }
            timed(loops[i].work, socket, count);
            return 0;
        }
    }
    die("no such loop");
}
