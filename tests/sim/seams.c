/* SPDX-License-Identifier: MIT */
/* seams.c - what the library calls in the system, simulated.
 *
 * The linker puts these functions in place of those of the C library in all our objects (not in
 * SQLite, which never waits for another thread of ours). Locks, conditions, threads, sleeping, the
 * clocks and random numbers are simulated; descriptors are real, but waiting for them is not.
 *
 * A mutex holds its simulated state itself: the library uses no other kind than the default one,
 * and initialises each with zeros or by pthread_mutex_init. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "broker/owner.h"
#include "schedule.h"

/* Threads that wait for a descriptor wait here: each write may have been for them. */
static char descriptors;

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                          void *(*entry)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **ret_value);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size);
int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms);
int __real_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __real_send(int fd, const void *data, size_t size, int flags);
int __wrap_nanosleep(const struct timespec *nap, struct timespec *ret_left);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now);
int __real_clock_gettime(clockid_t id, struct timespec *ret_now);
ssize_t __wrap_getrandom(void *out, size_t size, unsigned int flags);
quern_status __wrap_qn_owner_self(char out[QN_OWNER_SIZE], quern_error *err);
enum qn_owner_state __wrap_qn_owner_judge(const char *owner);
bool __wrap_qn_owner_lives(const char *owner, int64_t heartbeat_at_ms, int64_t now_ms);
bool __wrap_qn_owner_same_boot(const char *owner);
bool __wrap_qn_owner_boot_id(char out[QN_BOOT_ID_SIZE]);

/* --- Locks and conditions --------------------------------------------------------------- */

struct state {
    bool locked;
    bool awaited;
};

static struct state *state_of(pthread_mutex_t *mutex)
{
    _Static_assert(sizeof(struct state) <= sizeof *mutex, "it lies within the mutex");
    return (struct state *)(void *)mutex;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    QN_ASSERT(attributes == NULL);
    memset(mutex, 0, sizeof *mutex);
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

static void lock(struct state *state)
{
    while (state->locked) {
        state->awaited = true;
        (void)sim_wait(state, INT64_MAX);
    }
    state->locked = true;
}

static void unlock(struct state *state)
{
    QN_ASSERT(state->locked);
    state->locked = false;
    if (state->awaited) {
        state->awaited = false;
        sim_wake_all(state);
    }
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    sim_maybe_yield();
    lock(state_of(mutex));
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    unlock(state_of(mutex));
    return 0;
}

static int wait_at(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ns)
{
    unlock(state_of(mutex));
    bool woken = sim_wait(cond, until_ns);
    lock(state_of(mutex));
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return wait_at(cond, mutex, INT64_MAX);
}

/* All conditions with a time are on CLOCK_MONOTONIC (base/cond.c). */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    int64_t until_ns = until->tv_sec > INT64_MAX / 1000000000 - 1
                           ? INT64_MAX
                           : (int64_t)until->tv_sec * 1000000000 + until->tv_nsec;
    return wait_at(cond, mutex, until_ns);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    sim_wake_one(cond);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    sim_wake_all(cond);
    return 0;
}

/* --- Threads ---------------------------------------------------------------------------- */

int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes,
                          void *(*entry)(void *), void *argument)
{
    (void)attributes;
    *ret_thread = (pthread_t)(uintptr_t)sim_spawn(sim_self(), entry, argument);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret_value)
{
    QN_ASSERT(ret_value == NULL);
    sim_join((struct sim_thread *)(uintptr_t)thread); /* NOLINT: made of one above */
    return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    (void)name;
    return 0;
}

/* --- Waiting for descriptors ------------------------------------------------------------ */

static int64_t moment_in(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : sim_now_ns() + timeout_ms * SIM_NS_PER_MS;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int64_t until_ns = moment_in(timeout_ms);
    int ready = count == 0 ? 0 : __real_poll(fds, count, 0);
    while (ready == 0 && sim_now_ns() < until_ns) {
        (void)sim_wait(count == 0 ? NULL : &descriptors, until_ns);
        ready = count == 0 ? 0 : __real_poll(fds, count, 0);
    }
    return ready;
}

/* What poll is in a hardened build (_FORTIFY_SOURCE). */
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size)
{
    QN_ASSERT(size / sizeof *fds >= count);
    return __wrap_poll(fds, count, timeout_ms);
}

int __wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms)
{
    int64_t until_ns = moment_in(timeout_ms);
    int ready = __real_epoll_wait(epoll_fd, events, events_max, 0);
    while (ready == 0 && sim_now_ns() < until_ns) {
        (void)sim_wait(&descriptors, until_ns);
        ready = __real_epoll_wait(epoll_fd, events, events_max, 0);
    }
    return ready;
}

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    ssize_t written = __real_write(fd, data, size);
    sim_wake_all(&descriptors);
    return written;
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    ssize_t sent = __real_send(fd, data, size, flags);
    sim_wake_all(&descriptors);
    return sent;
}

int __wrap_nanosleep(const struct timespec *nap, struct timespec *ret_left)
{
    (void)ret_left;
    (void)sim_wait(NULL, sim_now_ns() + (int64_t)nap->tv_sec * 1000000000 + nap->tv_nsec);
    return 0;
}

/* --- Clocks and chance ------------------------------------------------------------------ */

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now)
{
    if (sim_self() == NULL) {
        return __real_clock_gettime(id, ret_now);
    }
    int64_t ns = id == CLOCK_REALTIME ? sim_wall_ms() * SIM_NS_PER_MS : sim_now_ns();
    *ret_now =
        (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    return 0;
}

ssize_t __wrap_getrandom(void *out, size_t size, unsigned int flags)
{
    unsigned char *bytes = out;
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)sim_random();
    }
    return (ssize_t)size;
}

/* --- Who lives -------------------------------------------------------------------------- */

#define BOOT_ID "5eed5eed-0000-4000-8000-000000000001"

/* world.c */
struct sim_process *sim_process_of(int number);
/* Whether processes of one host can see those of another, as containers of one namespace can. */
bool sim_sees(const struct sim_process *from, const struct sim_process *to);

quern_status __wrap_qn_owner_self(char out[QN_OWNER_SIZE], quern_error *err)
{
    (void)err;
    (void)snprintf(out, QN_OWNER_SIZE, BOOT_ID ":1:%d:1", sim_self()->number);
    return QUERN_OK;
}

enum qn_owner_state __wrap_qn_owner_judge(const char *owner)
{
    int number = 0;
    int fields = sscanf(owner, BOOT_ID ":1:%d:1", &number);
    const struct sim_process *process = fields == 1 ? sim_process_of(number) : NULL;
    if (process == NULL || !sim_sees(sim_self(), process)) {
        return QN_OWNER_UNKNOWN;
    }
    return process->dead ? QN_OWNER_DEAD : QN_OWNER_ALIVE;
}

bool __wrap_qn_owner_lives(const char *owner, int64_t heartbeat_at_ms, int64_t now_ms)
{
    enum qn_owner_state state = __wrap_qn_owner_judge(owner);
    return state == QN_OWNER_ALIVE ||
           (state == QN_OWNER_UNKNOWN && now_ms - heartbeat_at_ms <= QN_HEARTBEAT_MS_MAX);
}

bool __wrap_qn_owner_same_boot(const char *owner)
{
    return strncmp(owner, BOOT_ID, sizeof BOOT_ID - 1) == 0;
}

bool __wrap_qn_owner_boot_id(char out[QN_BOOT_ID_SIZE])
{
    memcpy(out, BOOT_ID, QN_BOOT_ID_SIZE);
    return true;
}
