/* SPDX-License-Identifier: MIT */
/* idle.c - the start of a task in a worker that sleeps, by our scripts and nothing else: one
 * process enqueues, another is notified by tracking, leases, and has the message.
 *
 * Three messages between processes, each of which wakes a sleeping one: enqueue, notice, lease. The
 * process polls for the answer to the lease without sleeping, as quern does. Any further time that
 * quern needs is its own. */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"

enum {
    GAP_MS = 4, /* between samples, and up to GAPS ms more: not in step with any timer */
    GAPS = 3,
    AWAKE_NS = 100000, /* the enqueueing process does not sleep itself */
    SPIN_NS = 150000   /* as src/net/socket.c */
};

/* Shared by the two processes. */
struct exchange {
    _Atomic int64_t sent_ns;
    _Atomic size_t ready; /* how many samples the worker is ready for */
};

/* The last request is answered. Polls for the answer without sleeping, but not for longer than
 * quern does. */
static redisReply *receive_soon(struct caller *caller)
{
    char byte;
    int written = 0;
    (void)redisBufferWrite(caller->redis, &written);
    int64_t until_ns = now_ns() + SPIN_NS;
    ssize_t found = -1;
    while (found < 0 && now_ns() < until_ns) {
        (void)sched_yield(); /* another process may need this CPU: perhaps the server */
        found = recv(caller->redis->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    }
    return caller_receive(caller);
}

static void enqueue_each(const char *socket, size_t samples, struct exchange *exchange)
{
    static struct caller caller;
    static struct bare_tasks tasks;
    bare_open(&caller, socket);
    bare_tasks_init(&tasks);
    for (size_t i = 0; i < samples; i++) {
        while (atomic_load(&exchange->ready) <= i) {
            (void)poll(NULL, 0, 1);
        }
        (void)poll(NULL, 0, GAP_MS + (int)(i % GAPS));
        for (int64_t until_ns = now_ns() + AWAKE_NS; now_ns() < until_ns;) {
        }
        bare_tasks_next(&tasks, 1);
        atomic_store(&exchange->sent_ns, now_ns());
        bare_enqueue(&caller, &tasks, 1);
        freeReplyObject(receive_soon(&caller));
    }
    bare_tasks_finish(&tasks);
    caller_close(&caller);
}

/* Commands of `caller` are tracked; `listener` is notified of changes. */
static void track(struct caller *caller, struct caller *listener, const char *socket)
{
    char command[64];
    caller_open(listener, socket);
    redisReply *id = caller_request(listener, "CLIENT ID");
    (void)snprintf(command, sizeof command, "CLIENT TRACKING ON REDIRECT %lld", id->integer);
    freeReplyObject(id);
    freeReplyObject(caller_request(listener, "SUBSCRIBE __redis__:invalidate"));
    freeReplyObject(caller_request(caller, command));
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* One task; how long its start took. */
static int64_t take_one(struct caller *caller, struct caller *listener, struct exchange *exchange)
{
    freeReplyObject(caller_request(caller, "LLEN " PREFIX "pending")); /* arms the notice */
    atomic_fetch_add(&exchange->ready, 1);
    freeReplyObject(caller_receive(listener));
    bare_lease(caller, "1");
    redisReply *leased = receive_soon(caller);
    int64_t took_ns = now_ns() - atomic_load(&exchange->sent_ns);
    if (bare_done(caller, leased) != 1) {
        die("the task is missing");
    }
    freeReplyObject(caller_receive(caller));
    freeReplyObject(leased);
    return took_ns;
}

void idle(const char *socket, size_t samples)
{
    static struct caller caller;
    static struct caller listener;
    struct exchange *exchange =
        mmap(NULL, sizeof *exchange, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t *took_ns = calloc(samples + 1, sizeof *took_ns);
    if (exchange == MAP_FAILED || took_ns == NULL || samples == 0) {
        die("no memory, or no samples");
    }
    pid_t client = fork();
    if (client == 0) {
        enqueue_each(socket, samples, exchange);
        _exit(0);
    }
    bare_open(&caller, socket);
    track(&caller, &listener, socket);
    for (size_t i = 0; i < samples; i++) {
        took_ns[i] = take_one(&caller, &listener, exchange);
    }
    (void)waitpid(client, NULL, 0);
    qsort(took_ns, samples, sizeof *took_ns, compare);
    printf("%.4f %.4f %.4f\n", (double)took_ns[samples / 2] / 1e6,
           (double)took_ns[samples * 99 / 100] / 1e6, (double)took_ns[samples - 1] / 1e6);
    caller_close(&listener);
    caller_close(&caller);
    free(took_ns);
}
