/* SPDX-License-Identifier: MIT */
#include "lib_prefork.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "lib_test.h"
#include "pool/prefork/child.h"
#include "quern/log.h"

static void put(struct qn_buf *out, const char *data, size_t size)
{
    TEST_REQUIRE(qn_buf_append(out, data, size) == QUERN_OK);
}

static void wait_for_byte(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    TEST_REQUIRE(fd >= 0);
    TEST_REQUIRE(read(fd, &byte, 1) == 1);
    (void)close(fd);
}

static void be_cancelled(struct qn_prefork_call *call, struct qn_buf *out)
{
    struct pollfd cancelled = {.fd = qn_prefork_call_cancel_fd(call), .events = POLLIN};
    TEST_REQUIRE(qn_prefork_call_send(call, 64, (struct qn_bytes){"waits", 5}));
    while (poll(&cancelled, 1, -1) < 0) {
    }
    TEST_REQUIRE(qn_buf_printf(out, "%" PRIu32, qn_prefork_call_cancelled(call)) == QUERN_OK);
}

static void be_stubborn(struct qn_prefork_call *call)
{
    char text[32];
    (void)signal(SIGTERM, SIG_IGN);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    int size = snprintf(text, sizeof text, "%d", (int)pid);
    TEST_REQUIRE(qn_prefork_call_send(call, 64, (struct qn_bytes){text, (size_t)size}));
    for (;;) {
        (void)pause();
    }
}

static void make_bytes(const char *text, struct qn_buf *out)
{
    static const char block[65536];
    size_t left = strtoul(text, NULL, 10);
    while (left > 0) {
        size_t size = left < sizeof block ? left : sizeof block;
        put(out, block, size);
        left -= size;
    }
}

static void run(struct qn_prefork_call *call, struct qn_bytes body, struct qn_buf *out, void *user)
{
    lib_prefork_act_fn **act = user;
    const char *text = body.data;
    switch (text[0]) {
    case 'w':
        wait_for_byte(text + 1);
        put(out, text + 1, body.size - 1);
        break;
    case 'e':
        put(out, text + 1, body.size - 1);
        break;
    case 'p':
        TEST_REQUIRE(qn_buf_printf(out, "%d", (int)getpid()) == QUERN_OK);
        break;
    case 'z':
        TEST_REQUIRE(qn_buf_printf(out, "%zu", body.size - 1) == QUERN_OK);
        break;
    case 'Z':
        make_bytes(text + 1, out);
        break;
    case 'a':
        TEST_REQUIRE(qn_prefork_call_send(call, 64, (struct qn_bytes){text + 1, body.size - 1}));
        TEST_REQUIRE(qn_prefork_call_receive(call, 65, out));
        break;
    case 'c':
        be_cancelled(call, out);
        break;
    case 'k':
        be_stubborn(call);
        break;
    default:
        (*act)(call, body, out);
    }
}

static struct lib_prefork_item *of(struct qn_prefork_item *item)
{
    return QN_CONTAINER_OF(item, struct lib_prefork_item, item);
}

static bool on_begin(struct qn_prefork_item *item, bool has_started, void *user)
{
    struct lib_prefork *fixture = user;
    (void)pthread_mutex_lock(&fixture->mutex);
    bool goes = has_started || !fixture->refuse_begin;
    of(item)->begun = has_started ? 2 : 1;
    fixture->begun++;
    (void)pthread_cond_broadcast(&fixture->changed);
    while (fixture->holds) {
        (void)pthread_cond_wait(&fixture->changed, &fixture->mutex);
    }
    if (!goes && fixture->free_refused) {
        free(of(item));
    }
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
    return goes;
}

static bool on_encode(struct qn_prefork_item *item, struct qn_buf *out, struct qn_bytes *ret_more,
                      void *user)
{
    struct lib_prefork *fixture = user;
    (void)pthread_mutex_lock(&fixture->mutex);
    of(item)->encoded++;
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
    *ret_more = (struct qn_bytes){of(item)->more, of(item)->more_size};
    return qn_buf_append_text(out, of(item)->text) == QUERN_OK;
}

static void copy(char *out, size_t out_size, struct qn_bytes bytes)
{
    size_t size = bytes.size < out_size - 1 ? bytes.size : out_size - 1;
    if (size > 0) {
        memcpy(out, bytes.data, size);
    }
    out[size] = '\0';
}

static bool on_frame(struct qn_prefork_item *item, uint16_t kind, struct qn_bytes body, void *user)
{
    struct lib_prefork *fixture = user;
    (void)pthread_mutex_lock(&fixture->mutex);
    of(item)->frames++;
    copy(of(item)->frame, sizeof of(item)->frame, body);
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
    return kind == 64;
}

static void on_made(struct qn_prefork *prefork, void *user)
{
    struct lib_prefork *fixture = user;
    fixture->prefork = prefork;
}

static bool on_result(struct qn_prefork_item *item, struct qn_bytes body, void *user)
{
    struct lib_prefork *fixture = user;
    assert_non_null(fixture->prefork); /* the first word of a child may be its result */
    (void)pthread_mutex_lock(&fixture->mutex);
    bool accepted = !fixture->refuse_result;
    if (accepted) {
        of(item)->results++;
        of(item)->order = ++fixture->results;
        of(item)->result_size = body.size;
        copy(of(item)->result, sizeof of(item)->result, body);
        (void)pthread_cond_broadcast(&fixture->changed);
    }
    (void)pthread_mutex_unlock(&fixture->mutex);
    return accepted;
}

static void on_died(struct qn_prefork_item *item, bool started,
                    const struct qn_prefork_death *death, void *user)
{
    struct lib_prefork *fixture = user;
    struct lib_prefork_item *ours = of(item);
    (void)pthread_mutex_lock(&fixture->mutex);
    ours->deaths++;
    ours->started = started;
    ours->by_us = death->by_us;
    ours->with_zygote = death->with_zygote;
    ours->with_pool = death->with_pool;
    ours->over_cpu = death->over_cpu;
    ours->status = death->status;
    (void)snprintf(ours->backtrace, sizeof ours->backtrace, "%s", death->backtrace);
    (void)snprintf(ours->stderr_text, sizeof ours->stderr_text, "%s", death->stderr_text);
    (void)snprintf(ours->hostile, sizeof ours->hostile, "%s",
                   death->hostile == NULL ? "" : death->hostile);
    fixture->deaths++;
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
}

static void on_gone(const char *why, void *user)
{
    struct lib_prefork *fixture = user;
    (void)pthread_mutex_lock(&fixture->mutex);
    fixture->gone += why[0] != '\0' ? 1 : 100;
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
}

static void on_log(int level, const char *message, pid_t pid, const char *detail, void *user)
{
    struct lib_prefork *fixture = user;
    (void)pid;
    (void)detail;
    (void)pthread_mutex_lock(&fixture->mutex);
    fixture->warned += level >= QUERN_LOG_WARN ? 1 : 0;
    fixture->ended += strcmp(message, "a child ended") == 0 ? 1 : 0;
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
}

static const struct qn_prefork_ops ops = {.made = on_made,
                                          .begin = on_begin,
                                          .encode = on_encode,
                                          .frame = on_frame,
                                          .result = on_result,
                                          .died = on_died,
                                          .gone = on_gone,
                                          .log = on_log};

void lib_prefork_init(struct lib_prefork *fixture)
{
    *fixture = (struct lib_prefork){.options = {.size = 1,
                                                .window = 1,
                                                .frame_size_max = (uint64_t)128 << 20,
                                                .stderr_size_max = 128,
                                                .kill_after_ms = 1000}};
    fixture->options.user = fixture;
    (void)pthread_mutex_init(&fixture->mutex, NULL);
    qn_cond_init(&fixture->changed);
}

static struct qn_zygote *zygotes[LIB_PREFORK_ZYGOTES];
static size_t zygotes_used;

void lib_prefork_prepare(lib_prefork_act_fn *act)
{
    static lib_prefork_act_fn *acts;
    static struct qn_prefork_code code = {.run = run, .user = &acts};
    static const struct qn_zygote_program program = {.run_child = qn_prefork_child_main,
                                                     .user = &code};
    quern_error error = {0};
    acts = act;
    for (size_t i = 0; zygotes[LIB_PREFORK_ZYGOTES - 1] == NULL && i < LIB_PREFORK_ZYGOTES; i++) {
        assert_ok(qn_zygote_fork(&program, &zygotes[i], &error), error);
    }
}

struct qn_zygote *lib_prefork_zygote(lib_prefork_act_fn *act)
{
    lib_prefork_prepare(act);
    assert_true(zygotes_used < LIB_PREFORK_ZYGOTES - 1);
    return zygotes[zygotes_used++];
}

void lib_prefork_start(struct lib_prefork *fixture, lib_prefork_act_fn *act)
{
    quern_error error = {0};
    fixture->zygote = lib_prefork_zygote(act);
    struct qn_prefork *prefork;
    fixture->prefork = NULL;
    assert_ok(qn_prefork_new(fixture->zygote, &fixture->options, &ops, &prefork, &error), error);
    assert_ptr_equal(fixture->prefork, prefork);
}

void lib_prefork_stop(struct lib_prefork *fixture)
{
    qn_prefork_free(fixture->prefork);
    (void)pthread_cond_destroy(&fixture->changed);
    (void)pthread_mutex_destroy(&fixture->mutex);
}

void lib_prefork_submit(struct lib_prefork *fixture, struct lib_prefork_item *item,
                        const char *text)
{
    struct qn_list list;
    qn_list_init(&list);
    (void)snprintf(item->text, sizeof item->text, "%s", text);
    qn_list_append(&list, &item->item.node);
    qn_prefork_submit(fixture->prefork, &list);
}

static void wait_for(struct lib_prefork *fixture, bool (*is_done)(const struct lib_prefork_item *),
                     const struct lib_prefork_item *item)
{
    int64_t until_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    bool in_time = true;
    (void)pthread_mutex_lock(&fixture->mutex);
    while (in_time && !(item != NULL ? is_done(item) : fixture->gone > 0)) {
        in_time = qn_cond_wait_until(&fixture->changed, &fixture->mutex, until_ns);
    }
    (void)pthread_mutex_unlock(&fixture->mutex);
    assert_true(in_time);
}

static bool has_ended(const struct lib_prefork_item *item)
{
    return item->results + item->deaths > 0;
}

static bool has_begun(const struct lib_prefork_item *item)
{
    return item->begun > 0;
}

static bool has_place(const struct lib_prefork_item *item)
{
    return item->encoded > 0;
}

static bool has_frame(const struct lib_prefork_item *item)
{
    return item->frames > 0;
}

bool lib_prefork_wait(struct lib_prefork *fixture, struct lib_prefork_item *item)
{
    wait_for(fixture, has_ended, item);
    return item->results == 1;
}

void lib_prefork_wait_begun(struct lib_prefork *fixture, struct lib_prefork_item *item)
{
    wait_for(fixture, has_begun, item);
}

void lib_prefork_wait_encoded(struct lib_prefork *fixture, struct lib_prefork_item *item)
{
    wait_for(fixture, has_place, item);
}

void lib_prefork_wait_frame(struct lib_prefork *fixture, struct lib_prefork_item *item)
{
    wait_for(fixture, has_frame, item);
}

void lib_prefork_release(struct lib_prefork *fixture)
{
    (void)pthread_mutex_lock(&fixture->mutex);
    fixture->holds = false;
    (void)pthread_cond_broadcast(&fixture->changed);
    (void)pthread_mutex_unlock(&fixture->mutex);
}

void lib_prefork_wait_refused(struct lib_prefork *fixture, int count)
{
    int64_t until_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    bool in_time = true;
    (void)pthread_mutex_lock(&fixture->mutex);
    while (in_time && fixture->begun < count) {
        in_time = qn_cond_wait_until(&fixture->changed, &fixture->mutex, until_ns);
    }
    fixture->refuse_begin = false;
    (void)pthread_mutex_unlock(&fixture->mutex);
    assert_true(in_time);
}

void lib_prefork_wait_gone(struct lib_prefork *fixture)
{
    wait_for(fixture, NULL, NULL);
}

void lib_prefork_run(struct lib_prefork *fixture, struct lib_prefork_item *item, const char *text)
{
    *item = (struct lib_prefork_item){0};
    lib_prefork_submit(fixture, item, text);
    (void)lib_prefork_wait(fixture, item);
}

int lib_prefork_warned(struct lib_prefork *fixture)
{
    (void)pthread_mutex_lock(&fixture->mutex);
    int warned = fixture->warned;
    (void)pthread_mutex_unlock(&fixture->mutex);
    return warned;
}

void lib_prefork_wait_ended(struct lib_prefork *fixture, int count)
{
    int64_t until_ns = qn_clock_mono_ns() + TEST_PATIENCE_MS * QN_NS_PER_MS;
    bool in_time = true;
    (void)pthread_mutex_lock(&fixture->mutex);
    while (in_time && fixture->ended < count) {
        in_time = qn_cond_wait_until(&fixture->changed, &fixture->mutex, until_ns);
    }
    (void)pthread_mutex_unlock(&fixture->mutex);
    assert_true(in_time);
}
