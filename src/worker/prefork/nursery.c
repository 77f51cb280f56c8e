/* SPDX-License-Identifier: MIT */
/* nursery.c - starts zygotes, and hands them to workers.
 *
 * A zygote and its children hold copies of the mux from the moment of the fork, so it is frozen as
 * long as the zygote lives. A worker takes the process and ends it; what stays for the caller to
 * free is the mux that an executed program announced, which the worker uses until its end. */
#include "worker/prefork/nursery.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/sized.h"
#include "base/text/buf.h"
#include "base/text/number.h"
#include "pool/prefork/child.h"
#include "task/limits.h"
#include "worker/prefork/announce.h"
#include "worker/prefork/call.h"
#include "worker/run/mux.h"

enum { START_TIMEOUT_MS = 10000, HELLO_SIZE_MAX = 64 << 20 };

struct quern_zygote {
    struct qn_zygote *process; /* NULL: a worker took it */
    /* Of commands beside handlers: events of a zygote have one reader. NULL: none, or taken. */
    struct qn_zygote *commands;
    const quern_mux *mux; /* frozen if it is the caller's */
    quern_mux *announced; /* owned; NULL: the mux is the caller's */
    struct qn_buf hello;  /* what was announced */
    pid_t owner_pid;
    _Atomic bool claimed;
};

/* What a child needs, in memory that forks inherit. */
struct program {
    struct qn_call_setup setup;
    struct qn_prefork_code code;
};

static quern_status read_options(struct qn_bytes theirs, quern_zygote_options *ret_options,
                                 quern_error *err)
{
    quern_status status = qn_sized_copy(QN_ROOM_OF(*ret_options), theirs, "zygote options", err);
    if (status == QUERN_OK &&
        (ret_options->start_timeout_ms < 0 || ret_options->start_timeout_ms > QN_DURATION_MS_MAX)) {
        status = qn_error_set(err, QUERN_E_INVALID, "start_timeout_ms is %lld",
                              (long long)ret_options->start_timeout_ms);
    }
    return status;
}

static void fill_program(struct program *program, const quern_mux *mux,
                         const quern_zygote_options *options)
{
    program->setup = (struct qn_call_setup){
        .mux = mux, .on_child_start = options->on_child_start, .user = options->user};
    program->code = (struct qn_prefork_code){
        .start = qn_call_start, .run = qn_call_run, .user = &program->setup};
}

static quern_status new_zygote(quern_zygote **ret_zygote, quern_error *err)
{
    quern_zygote *zygote = qn_alloc_zero(1, sizeof *zygote);
    if (zygote == NULL) {
        return qn_error_nomem(err);
    }
    atomic_init(&zygote->claimed, false);
    zygote->owner_pid = getpid();
    qn_buf_init(&zygote->hello, HELLO_SIZE_MAX);
    *ret_zygote = zygote;
    return QUERN_OK;
}

quern_status qn_nursery_add_commands(quern_zygote *zygote, quern_error *err)
{
    static const struct qn_zygote_program none = {
        .run_child = NULL}; /* the worker starts no children there */
    return qn_zygote_fork(&none, &zygote->commands, err);
}

quern_status qn_nursery_fork_commands(quern_zygote *zygote, quern_error *err)
{
    bool has_one = zygote->commands != NULL || zygote->process == NULL;
    return zygote->announced == NULL || has_one || !qn_mux_has_commands(zygote->announced)
               ? QUERN_OK
               : qn_zygote_fork_another(zygote->process, &zygote->commands, err);
}

quern_status quern_zygote_start_sized(const quern_mux *mux, const quern_zygote_options *options,
                                      size_t options_size, quern_zygote **ret_zygote,
                                      quern_error *err)
{
    if (mux == NULL || ret_zygote == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            mux == NULL ? "mux" : "ret_zygote");
    }
    quern_zygote_options own;
    quern_status status = read_options((struct qn_bytes){options, options_size}, &own, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_zygote *zygote;
    status = new_zygote(&zygote, err);
    if (status != QUERN_OK) {
        return status;
    }
    struct program program; /* the forks have copies of this stack */
    fill_program(&program, mux, &own);
    const struct qn_zygote_program forked = {.run_child = qn_prefork_child_main,
                                             .user = &program.code};
    bool is_mixed = qn_mux_is_mixed(mux);
    qn_mux_freeze(mux);
    status = qn_zygote_fork(&forked, &zygote->process, err);
    if (status == QUERN_OK && is_mixed) {
        status = qn_nursery_add_commands(zygote, err);
    }
    if (status != QUERN_OK) {
        qn_zygote_free(zygote->process);
        qn_mux_thaw(mux);
        qn_free(zygote);
        return status;
    }
    zygote->mux = mux;
    *ret_zygote = zygote;
    return QUERN_OK;
}

/* A copy stays when a worker has taken the process. */
static quern_status read_hello(quern_zygote *zygote, quern_error *err)
{
    struct qn_bytes hello = qn_zygote_hello(zygote->process);
    quern_status status = qn_announce_read(hello, &zygote->announced, err);
    if (status == QUERN_OK && qn_buf_append(&zygote->hello, hello.data, hello.size) != QUERN_OK) {
        status = qn_error_nomem(err);
    }
    return status;
}

quern_status quern_zygote_exec_sized(const char *path, char *const argv[],
                                     const quern_zygote_options *options, size_t options_size,
                                     quern_zygote **ret_zygote, quern_error *err)
{
    if (path == NULL || argv == NULL || ret_zygote == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: must not be NULL",
                            path == NULL   ? "path"
                            : argv == NULL ? "argv"
                                           : "ret_zygote");
    }
    quern_zygote_options own;
    quern_status status = read_options((struct qn_bytes){options, options_size}, &own, err);
    if (status == QUERN_OK && own.on_child_start != NULL) {
        status = qn_error_set(err, QUERN_E_INVALID,
                              "on_child_start is an option of the program that serves");
    }
    quern_zygote *zygote;
    if (status == QUERN_OK) {
        status = new_zygote(&zygote, err);
    }
    if (status != QUERN_OK) {
        return status;
    }
    int64_t timeout_ms = own.start_timeout_ms != 0 ? own.start_timeout_ms : START_TIMEOUT_MS;
    status = qn_zygote_exec(path, argv, timeout_ms, &zygote->process, err);
    if (status == QUERN_OK) {
        status = read_hello(zygote, err);
    }
    if (status != QUERN_OK) {
        qn_zygote_free(zygote->process);
        quern_mux_free(zygote->announced);
        qn_buf_finish(&zygote->hello);
        qn_free(zygote);
        return status;
    }
    zygote->mux = zygote->announced;
    *ret_zygote = zygote;
    return QUERN_OK;
}

static quern_status serve(const quern_mux *mux, const quern_zygote_options *options, int warden_fd,
                          quern_error *err)
{
    struct qn_buf hello;
    qn_buf_init(&hello, HELLO_SIZE_MAX);
    quern_status status = qn_announce_write(mux, &hello, err);
    if (status == QUERN_OK) {
        struct program program;
        fill_program(&program, mux, options);
        const struct qn_zygote_program served = {.run_child = qn_prefork_child_main,
                                                 .user = &program.code,
                                                 .hello = {hello.data, hello.size},
                                                 .warden_fd = warden_fd};
        qn_mux_freeze(mux);
        status = qn_zygote_serve(&served, err);
        qn_mux_thaw(mux);
    }
    qn_buf_finish(&hello);
    return status;
}

quern_status qn_nursery_serve(const quern_mux *mux, int warden_fd, quern_error *err)
{
    const quern_zygote_options none = {.start_timeout_ms = 0};
    return serve(mux, &none, warden_fd, err);
}

quern_status quern_zygote_serve_sized(const quern_mux *mux, const quern_zygote_options *options,
                                      size_t options_size, quern_error *err)
{
    if (mux == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "mux: must not be NULL");
    }
    quern_zygote_options own;
    quern_status status = read_options((struct qn_bytes){options, options_size}, &own, err);
    return status == QUERN_OK ? serve(mux, &own, 0, err) : status;
}

quern_status qn_nursery_claim(quern_zygote *zygote, const quern_mux *mux, const quern_mux **ret_mux,
                              quern_error *err)
{
    if (zygote->owner_pid != getpid()) {
        return qn_error_set(err, QUERN_E_CLOSED, "zygote belongs to the process that forked");
    }
    if (mux != NULL && mux != zygote->mux) {
        return qn_error_set(err, QUERN_E_INVALID,
                            zygote->announced != NULL
                                ? "mux: the zygote is another program, pass NULL to use its own"
                                : "mux: the zygote was started with another one");
    }
    if (atomic_exchange(&zygote->claimed, true)) {
        return qn_error_set(err, QUERN_E_STATE, "zygote has a worker already, or had one");
    }
    *ret_mux = zygote->mux;
    return QUERN_OK;
}

void qn_nursery_unclaim(quern_zygote *zygote)
{
    atomic_store(&zygote->claimed, false);
}

bool qn_nursery_equal(const quern_zygote *zygote, const quern_zygote *other)
{
    return zygote->announced != NULL && other->announced != NULL &&
           zygote->hello.size == other->hello.size &&
           memcmp(zygote->hello.data, other->hello.data, zygote->hello.size) == 0;
}

quern_mux *quern_zygote_mux(quern_zygote *zygote)
{
    return zygote != NULL ? zygote->announced : NULL;
}

struct qn_zygote *qn_nursery_take(quern_zygote *zygote)
{
    struct qn_zygote *process = zygote->process;
    zygote->process = NULL;
    return process;
}

struct qn_zygote *qn_nursery_take_for_commands(quern_zygote *zygote)
{
    struct qn_zygote *process = zygote->commands;
    zygote->commands = NULL;
    return process;
}

void quern_zygote_free(quern_zygote *zygote)
{
    if (zygote == NULL || zygote->owner_pid != getpid()) {
        return;
    }
    qn_zygote_free(zygote->process);
    qn_zygote_free(zygote->commands);
    qn_buf_finish(&zygote->hello);
    if (zygote->announced != NULL) {
        quern_mux_free(zygote->announced);
    } else {
        qn_mux_thaw(zygote->mux);
    }
    qn_free(zygote);
}
