/* SPDX-License-Identifier: MIT */
/* lib_inspect.c - the operations that list and change stored data, as lib_operate.c calls them. */
#include <stdio.h>
#include <unistd.h>

#include "lib_operate.h"
#include "task/limits.h"

/* --- Looking ------------------------------------------------------------------------ */

static bool on_queue(const quern_queue_info *info, void *user)
{
    fuzz_read_text(user, info->name);
    return true;
}

void fuzz_do_queues(struct fuzz_rig *rig)
{
    rig->status = qn_broker_queues(rig->broker, NULL, on_queue, rig, &rig->err);
}

static bool on_task(const quern_task_info *info, void *user)
{
    fuzz_read_task(user, &info->task);
    fuzz_read(user, info->result, info->result_size);
    fuzz_read_text(user, info->error);
    fuzz_read_text(user, info->worker);
    fuzz_read_text(user, info->progress_note);
    quern_task_info *copy = qn_task_info_copy(info);
    quern_task_info_free(copy);
    return true;
}

static quern_task_filter make_filter(struct fuzz_rig *rig, char text[16])
{
    uint8_t byte = fuzz_byte(rig->input);
    (void)fuzz_text(rig->input, text, 16);
    const char *queue = fuzz_pick_queue(rig);
    const char *id = fuzz_pick_id(rig);
    return (quern_task_filter){.queue = byte & 0x80 ? NULL : queue,
                               .state = byte % 8,
                               .text = byte & 0x40 ? text : NULL,
                               .type = byte & 0x20 ? "type*" : NULL,
                               .id = byte & 0x10 ? id : NULL,
                               .limit = 10};
}

void fuzz_do_tasks(struct fuzz_rig *rig)
{
    char text[16];
    const quern_task_filter filter = make_filter(rig, text);
    rig->status = qn_broker_tasks(rig->broker, &filter, on_task, rig, &rig->err);
}

static bool on_worker(const quern_worker_info *info, void *user)
{
    fuzz_read_text(user, info->id);
    fuzz_read_text(user, info->host);
    fuzz_read_text(user, quern_worker_status_name(info->status));
    fuzz_read_text(user, info->queues);
    for (size_t i = 0; i < info->run_count; i++) {
        fuzz_read_text(user, info->runs[i].id);
        fuzz_read_text(user, info->runs[i].type);
        fuzz_read_text(user, info->runs[i].queue);
    }
    return true;
}

void fuzz_do_workers(struct fuzz_rig *rig)
{
    rig->status = qn_broker_workers(rig->broker, on_worker, rig, &rig->err);
}

void fuzz_do_history(struct fuzz_rig *rig)
{
    quern_day days[3];
    rig->status = qn_broker_history(rig->broker, fuzz_pick_queue(rig), 3, days, &rig->err);
}

static void on_fact(const char *name, const char *text, void *user)
{
    fuzz_read_text(user, name);
    fuzz_read_text(user, text);
}

void fuzz_do_server_info(struct fuzz_rig *rig)
{
    rig->status = qn_broker_server_info(rig->broker, on_fact, rig, &rig->err);
}

void fuzz_do_find_queue(struct fuzz_rig *rig)
{
    rig->status = qn_broker_find_queue(rig->broker, fuzz_pick_queue(rig), &rig->err);
}

void fuzz_do_lock_holder(struct fuzz_rig *rig)
{
    char id[QN_NAME_SIZE_MAX + 1] = "";
    rig->status = qn_broker_lock_holder(rig->broker, FUZZ_LOCK, id, &rig->err);
    fuzz_read_text(rig, id);
}

static bool on_id(const char *queue, const char *id, void *user)
{
    fuzz_read_text(user, queue);
    fuzz_read_text(user, id);
    return true;
}

void fuzz_do_match_id(struct fuzz_rig *rig)
{
    static const char *const prefixes[] = {"0", "0123abcd", "01234567-89ab-4", "fff"};
    const char *prefix = prefixes[fuzz_byte(rig->input) % 4];
    rig->status = qn_broker_match_id(rig->broker, prefix, on_id, rig, &rig->err);
}

void fuzz_do_is_gone(struct fuzz_rig *rig)
{
    if (qn_broker_is_gone(rig->broker, &rig->err)) {
        fuzz_read_text(rig, rig->err.text);
    }
}

void fuzz_do_backup(struct fuzz_rig *rig)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/copy.db", fuzz_dir());
    rig->status = qn_broker_backup(rig->broker, path, &rig->err);
    (void)unlink(path);
}

/* --- Steering ----------------------------------------------------------------------- */

void fuzz_do_operate(struct fuzz_rig *rig)
{
    quern_action action = (quern_action)(1 + fuzz_byte(rig->input) % 5);
    const char *queue = fuzz_pick_queue(rig);
    rig->status = qn_broker_operate(rig->broker, action, queue, fuzz_pick_id(rig), &rig->err);
}

void fuzz_do_operate_all(struct fuzz_rig *rig)
{
    char text[16];
    size_t count = 0;
    quern_action action = (quern_action)(1 + fuzz_byte(rig->input) % 5);
    quern_task_filter filter = make_filter(rig, text);
    filter.queue = filter.queue == NULL ? "q" : filter.queue;
    filter.state = filter.state == 0 ? QUERN_TASK_PENDING : filter.state;
    rig->status = qn_broker_operate_all(rig->broker, &(struct qn_bulk){action, &filter, 10}, &count,
                                        &rig->err);
}

void fuzz_do_pause(struct fuzz_rig *rig)
{
    bool pause = fuzz_byte(rig->input) % 2 == 0;
    rig->status = qn_broker_pause(rig->broker, fuzz_pick_queue(rig), pause, &rig->err);
}

void fuzz_do_remove_queue(struct fuzz_rig *rig)
{
    bool force = fuzz_byte(rig->input) % 2 == 0;
    rig->status = qn_broker_remove_queue(rig->broker, fuzz_pick_queue(rig), force, &rig->err);
}

static void on_finding(const quern_finding *finding, void *user)
{
    fuzz_read_text(user, finding->invariant);
    fuzz_read_text(user, finding->queue);
    fuzz_read_text(user, finding->id);
    fuzz_read_text(user, finding->text);
}

void fuzz_do_doctor(struct fuzz_rig *rig)
{
    bool repair = fuzz_byte(rig->input) % 2 == 0;
    rig->status = qn_broker_doctor(rig->broker, repair, on_finding, rig, &rig->err);
}
