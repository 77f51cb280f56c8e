/* SPDX-License-Identifier: MIT */
/* lib_operate.h - common to the operations that an input chooses: what they share while they run,
 * and reading of results. */
#ifndef TESTS_FUZZ_LIB_OPERATE_H
#define TESTS_FUZZ_LIB_OPERATE_H

#include "lib_fuzz.h"

#define FUZZ_RUNS_MAX 16
#define FUZZ_LOCK "asynq:{default}:unique:key"

struct fuzz_rig {
    struct qn_broker *broker;
    struct fuzz_input *input;
    struct qn_leased *runs[FUZZ_RUNS_MAX];
    size_t run_count;
    uint64_t sequence;
    bool waits;          /* it called arm or wait, so it does not watch */
    bool watches;        /* the other way round */
    quern_status status; /* of the last operation; ignored */
    quern_error err;
    volatile size_t sum; /* of what was read */
};

void fuzz_read(struct fuzz_rig *rig, const void *data, size_t size);
void fuzz_read_text(struct fuzz_rig *rig, const char *text);
void fuzz_read_task(struct fuzz_rig *rig, const struct qn_task *task);
const char *fuzz_pick_queue(struct fuzz_rig *rig);
const char *fuzz_pick_id(struct fuzz_rig *rig);

/* lib_inspect.c */
void fuzz_do_queues(struct fuzz_rig *rig);
void fuzz_do_tasks(struct fuzz_rig *rig);
void fuzz_do_workers(struct fuzz_rig *rig);
void fuzz_do_history(struct fuzz_rig *rig);
void fuzz_do_server_info(struct fuzz_rig *rig);
void fuzz_do_find_queue(struct fuzz_rig *rig);
void fuzz_do_lock_holder(struct fuzz_rig *rig);
void fuzz_do_match_id(struct fuzz_rig *rig);
void fuzz_do_standing(struct fuzz_rig *rig);
void fuzz_do_command(struct fuzz_rig *rig);
void fuzz_do_search(struct fuzz_rig *rig);
void fuzz_do_search_act(struct fuzz_rig *rig);
void fuzz_do_trash(struct fuzz_rig *rig);
void fuzz_do_is_gone(struct fuzz_rig *rig);
void fuzz_do_backup(struct fuzz_rig *rig);
void fuzz_do_operate(struct fuzz_rig *rig);
void fuzz_do_operate_all(struct fuzz_rig *rig);
void fuzz_do_pause(struct fuzz_rig *rig);
void fuzz_do_remove_queue(struct fuzz_rig *rig);
void fuzz_do_doctor(struct fuzz_rig *rig);
/* Of a queue, and its limits. */
void fuzz_do_settings(struct fuzz_rig *rig);
void fuzz_do_reload(struct fuzz_rig *rig);
/* One of those of schedulers. */
void fuzz_do_schedule(struct fuzz_rig *rig);

#endif
