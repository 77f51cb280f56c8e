/* SPDX-License-Identifier: MIT */
/* loop_process.h - a shell command that stays: it reads lines on stdin and writes lines on stdout.
 *
 * One thread at a time uses a process. It is a process group of its own and dies with us, as
 * child.h says. Nothing here knows what the lines mean. */
#ifndef QN_POOL_EXEC_LOOP_PROCESS_H
#define QN_POOL_EXEC_LOOP_PROCESS_H

#include "base/memory/list.h"
#include "base/memory/view.h"
#include "pool/exec/spawn.h"
#include "pool/exec/stderr_tail.h"

struct qn_loop_process {
    struct qn_list node; /* the owner's */
    bool killed_by_us;
    /* Since qn_loop_process_send. */
    struct qn_stderr_tail stderr_text;
    struct qn_spawned spawned; /* its `end` after QN_LOOP_ENDED */
    /* The rest is its own. */
    struct qn_buf input; /* what was not written yet */
    size_t input_sent;
    struct qn_buf output;
    size_t output_read;    /* lines before it were returned */
    size_t output_scanned; /* no line end before it */
    size_t line_size_max;
    bool has_ended;
    bool is_ending;            /* we have closed its input: what it writes is dropped */
    bool is_unread;            /* its input is closed, and it has read nothing of the last one */
    int64_t silent_at_mono_ns; /* when QN_LOOP_SILENT is due; 0: it is not */
    uint64_t run_count;        /* the owner's */
    int64_t alarm_mono_ns;     /* the owner's */
    bool is_limited;           /* the last limits that were set are some */
};

struct qn_loop_process_spec {
    struct qn_spawn_request request; /* without progress */
    size_t line_size_max;
    size_t stderr_size_max; /* last bytes kept */
};

struct qn_loop_wait {
    int cancel_fd;                 /* readable: stop waiting; -1: none */
    int64_t until_mono_ns;         /* INT64_MAX: for ever */
    const _Atomic bool *abandoned; /* looked at while until_mono_ns is set; NULL: never */
};

enum qn_loop_event {
    QN_LOOP_LINE,      /* without its end; valid until the next call */
    QN_LOOP_TOO_LONG,  /* a line of more than line_size_max bytes; nothing more can be read */
    QN_LOOP_NO_MEMORY, /* no room for a line; nothing more can be read */
    QN_LOOP_ENDED,     /* all its output was read, its group was killed, it was reaped */
    QN_LOOP_SILENT,    /* it lives, but has closed its output, or its input without reading any of
                        * what was sent, a second ago: nothing will come */
    QN_LOOP_CANCELLED,
    QN_LOOP_TIMEOUT /* until_mono_ns, or abandoned */
};

/* Errors as qn_spawn; also those that the shell reports later: see qn_loop_process_refusal. */
QUERN_NODISCARD quern_status qn_loop_process_start(const struct qn_loop_process_spec *spec,
                                                   struct qn_loop_process **ret_process,
                                                   quern_error *err);
/* Gives it these bytes to read; they are written while qn_loop_process_next waits. The text of
 * stderr is empty again. QUERN_E_NOMEM: nothing is sent. */
QUERN_NODISCARD quern_status qn_loop_process_send(struct qn_loop_process *process,
                                                  struct qn_bytes bytes, quern_error *err);
/* Limits of what it does from now on, as of qn_tree_limits_set. */
void qn_loop_process_limit(struct qn_loop_process *process, int64_t cpu_ms, uint64_t memory_max);
enum qn_loop_event qn_loop_process_next(struct qn_loop_process *process,
                                        const struct qn_loop_wait *wait, struct qn_bytes *ret_line);
/* It lives, has written nothing that was not read, was sent all, and has its input and output open.
 * Does not wait. */
bool qn_loop_process_is_quiet(struct qn_loop_process *process);
/* Where that is false: because it has written. */
bool qn_loop_process_is_noisy(struct qn_loop_process *process);
/* After QN_LOOP_ENDED or QN_LOOP_SILENT: it has read nothing of what was sent last. */
bool qn_loop_process_is_unread(const struct qn_loop_process *process);
/* It has begun a line and not ended it. */
bool qn_loop_process_has_half_line(const struct qn_loop_process *process);
/* Ends it now, as after QN_LOOP_ENDED. */
void qn_loop_process_kill(struct qn_loop_process *process);
/* Takes in what is there of its stderr. Does not wait. */
void qn_loop_process_read_stderr(struct qn_loop_process *process);
/* It reads the end of its input. */
void qn_loop_process_close_input(struct qn_loop_process *process);
/* SIGTERM or SIGKILL to its group; nothing if it has ended. */
void qn_loop_process_signal(struct qn_loop_process *process, int number);
/* After QN_LOOP_ENDED: an error if the shell was not even executed, as of qn_child_run. */
QUERN_NODISCARD quern_status qn_loop_process_refusal(const struct qn_loop_process *process,
                                                     quern_error *err);
/* Kills it if it lives. NULL is allowed. */
void qn_loop_process_free(struct qn_loop_process *process);

#endif
