/* SPDX-License-Identifier: MIT */
/* lib_inspect.c - the operations that list and change stored data, as lib_operate.c calls them. */
#include <stdio.h>
#include <unistd.h>

#include "broker/command/command.h"
#include "broker/edit/edit.h"
#include "broker/limit/limit.h"
#include "broker/move/move.h"
#include "broker/reload.h"
#include "broker/schedule/schedule.h"
#include "broker/standing/standing.h"
#include "broker/trash/trash.h"
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

static bool keep_task(const quern_task_info *info, void *user)
{
    quern_task_info **copy = user;
    *copy = qn_task_info_copy(info);
    return false;
}

void fuzz_do_standing(struct fuzz_rig *rig)
{
    char text[16];
    struct qn_standing standing = {.ahead = 0};
    quern_task_info *copy = NULL;
    const quern_task_filter filter = make_filter(rig, text);
    rig->status = qn_broker_tasks(rig->broker, &filter, keep_task, &copy, &rig->err);
    if (copy != NULL) {
        rig->status = qn_broker_standing(rig->broker, copy, &standing, &rig->err);
        fuzz_read_text(rig, standing.solo_owner);
        fuzz_read_text(rig, standing.host);
    }
    quern_task_info_free(copy);
}

void fuzz_do_command(struct fuzz_rig *rig)
{
    struct qn_found_worker worker;
    rig->status = qn_broker_find_worker(rig->broker, "w1", &worker, &rig->err);
    fuzz_read_text(rig, worker.answer.text);
    if (rig->status == QUERN_OK) {
        rig->status = qn_broker_command(rig->broker, "1 w1 0000000000000001 quiet 0", &rig->err);
    }
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

void fuzz_do_reload(struct fuzz_rig *rig)
{
    rig->status = qn_broker_reload(rig->broker, &rig->err);
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

/* With each kind of test, in any state, from any position. */
void fuzz_do_search(struct fuzz_rig *rig)
{
    static const char *const texts[] = {
        "", "type ~ a or payload ~ b or header.a = * or error = ''",
        "age > 1s or ended < 1d or due > 1s or running > 0 or failed > 0",
        "worker ~ w or group != g or size > 1 or retried > 1 or crashes > 1 or priority > 0"};
    struct qn_condition *condition = NULL;
    if (qn_condition_parse(texts[fuzz_byte(rig->input) % 4], &condition, NULL) != QUERN_OK) {
        return;
    }
    struct qn_search search = {
        .condition = condition, .limit = 5, .scan_max = 20, .on_task = on_task, .user = rig};
    search.queue = fuzz_pick_queue(rig);
    search.state = (quern_task_state)(1 + fuzz_byte(rig->input) % 7);
    search.oldest_first = fuzz_byte(rig->input) % 2 == 0;
    search.from.rank = fuzz_byte(rig->input) % 4;
    search.from.seq = fuzz_byte(rig->input) % 4;
    search.from.part = fuzz_byte(rig->input) % 7;
    search.from.key = (int64_t)fuzz_number(rig->input);
    struct qn_search_end end = {.is_over = false};
    rig->status = qn_broker_search(rig->broker, &search, &end, &rig->err);
    fuzz_require(rig->status != QUERN_OK || end.scanned <= search.scan_max);
    qn_condition_free(condition);
}

void fuzz_do_search_act(struct fuzz_rig *rig)
{
    static const struct qn_found found[] = {{"a", ""}, {"b", FUZZ_LOCK}};
    struct qn_found_list list = {.items = found, .count = 2, .rank_max = 1};
    list.action = (quern_action)(1 + fuzz_byte(rig->input) % 6);
    list.queue = fuzz_pick_queue(rig);
    list.state = (quern_task_state)(1 + fuzz_byte(rig->input) % 7);
    size_t done = 0;
    rig->status = qn_broker_search_act(rig->broker, &list, &done, &rig->err);
    fuzz_require(done <= list.count);
}

void fuzz_do_trash(struct fuzz_rig *rig)
{
    static const struct qn_found found[] = {{"a", ""}, {"b", FUZZ_LOCK}};
    struct qn_condition *condition = NULL;
    struct qn_trash_use use = {.count = 0};
    enum qn_trash_result results[2] = {QN_TRASH_MISSING, QN_TRASH_MISSING};
    const char *queue = fuzz_pick_queue(rig);
    uint8_t choice = fuzz_byte(rig->input);
    struct qn_trash_list list = {.queue = queue, .items = found, .count = 2};
    list.action = choice % 2 == 0 ? QUERN_ACTION_RESTORE : QUERN_ACTION_DELETE;
    list.dry = choice % 3 == 0;
    rig->status = qn_broker_trash_use(rig->broker, queue, &use, &rig->err);
    if (qn_condition_parse("text ~ a", &condition, NULL) == QUERN_OK) {
        const struct qn_search search = {.condition = condition,
                                         .queue = queue,
                                         .from = {.rank = choice % 4, .seq = choice % 4},
                                         .limit = 5,
                                         .scan_max = 20,
                                         .on_task = on_task,
                                         .user = rig};
        struct qn_search_end end = {.is_over = false};
        rig->status = qn_broker_trash_search(rig->broker, &search, &end, &rig->err);
        fuzz_require(rig->status != QUERN_OK || end.scanned <= search.scan_max);
        qn_condition_free(condition);
    }
    rig->status = qn_broker_trash_act(rig->broker, &list, results, &rig->err);
    const quern_task_edit edit = {
        .payload = "x", .payload_size = choice % 2, .set_payload = 1, .delay_ms = choice % 3};
    const struct qn_edit_item item = {.id = "a"};
    const struct qn_edit_list edits = {.edit = &edit,
                                       .queue = queue,
                                       .state = (quern_task_state)(choice % 8),
                                       .items = &item,
                                       .count = 1};
    struct qn_edit_answer answer;
    rig->status = qn_broker_edit(rig->broker, &edits, &answer, &rig->err);
    struct qn_move_list moves = {.queue = queue, .to = "moved", .state = edits.state, .count = 1};
    struct qn_move_answer moved;
    moves.items = &(struct qn_found){"a", ""};
    rig->status = qn_broker_move(rig->broker, &moves, &moved, &rig->err);
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

/* --- Settings of a queue and its limits -------------------------------------------- */

static bool on_limit(const quern_limit *limit, void *user)
{
    fuzz_read_text(user, limit->queue);
    fuzz_read_text(user, limit->name);
    return true;
}

static void do_set_limit(struct fuzz_rig *rig)
{
    uint8_t byte = fuzz_byte(rig->input);
    const quern_limit limit = {.queue = fuzz_pick_queue(rig),
                               .scope = QUERN_LIMIT_QUEUE + byte % 3,
                               .name = byte % 3 == 0 ? ""
                                       : byte & 0x40 ? "*"
                                                     : "type",
                               .count = 1 + (byte >> 2 & 3),
                               .period_ms = byte & 0x80 ? 1000 : 0,
                               .burst = (byte & 0xa0) == 0xa0 ? 2 : 0};
    rig->status = qn_broker_set_limit(rig->broker, &limit, &rig->err);
}

void fuzz_do_settings(struct fuzz_rig *rig)
{
    uint8_t choice = fuzz_byte(rig->input) % 4;
    const quern_queue_settings settings = {.max_pending = fuzz_byte(rig->input)};
    const struct qn_limit_owner owner = {
        .queue = fuzz_pick_queue(rig), .scope = QUERN_LIMIT_TYPE, .name = "type"};
    switch (choice) {
    case 0:
        rig->status = qn_broker_set_queue(rig->broker, owner.queue, &settings, &rig->err);
        break;
    case 1:
        do_set_limit(rig);
        break;
    case 2:
        rig->status = qn_broker_remove_limit(rig->broker, &owner, &rig->err);
        break;
    default:
        rig->status = qn_broker_limits(rig->broker, NULL, on_limit, rig, &rig->err);
    }
}

/* --- Schedules ---------------------------------------------------------------------- */

#define TICKS_MAX 4

static const char *pick_entry(struct fuzz_rig *rig)
{
    static const char *const names[] = {"e0", "e1"};
    return names[fuzz_byte(rig->input) % 2];
}

static struct qn_task make_tick_task(struct fuzz_rig *rig)
{
    return (struct qn_task){.id = fuzz_pick_id(rig),
                            .queue = fuzz_pick_queue(rig),
                            .type = "type",
                            .timeout_ms = 60000,
                            .state = QUERN_TASK_PENDING};
}

static bool on_entry(const struct qn_schedule_entry *entry, void *user)
{
    struct fuzz_rig *rig = user;
    fuzz_read_text(rig, entry->name);
    fuzz_read_text(rig, entry->task.queue);
    fuzz_read_text(rig, entry->fault);
    if (entry->fault == NULL) {
        fuzz_require(qn_schedule_check_entry(entry, NULL) == QUERN_OK);
        fuzz_read_text(rig, entry->origin);
        fuzz_read_text(rig, entry->cron);
        fuzz_read_text(rig, entry->zone);
        fuzz_read_task(rig, &entry->task);
    }
    return true;
}

static bool on_event(const struct qn_tick_event *event, void *user)
{
    fuzz_read_text(user, event->id);
    return true;
}

static void do_put(struct fuzz_rig *rig)
{
    struct qn_schedule_entry entry = {.name = pick_entry(rig),
                                      .task = make_tick_task(rig),
                                      .origin = "cli",
                                      .cron = fuzz_byte(rig->input) & 1 ? "* * * * *" : "@daily",
                                      .zone = "",
                                      .misfire = QN_MISFIRE_ONCE,
                                      .misfire_max = 1};
    struct qn_put put = {.entry = &entry, .expected = fuzz_byte(rig->input)};
    if (put.expected > 1) {
        put.expected = QN_REVISION_ANY;
    }
    rig->status = qn_schedule_put(rig->broker, &put, 1, &rig->err);
}

static void do_lead(struct fuzz_rig *rig)
{
    struct qn_lead_reply reply;
    const struct qn_lead lead = {.what = (enum qn_lead_what)(fuzz_byte(rig->input) % 4),
                                 .owner = "owner",
                                 .id = "host:1:id",
                                 .lease_ms = 10000};
    rig->status = qn_schedule_lead(rig->broker, &lead, &reply, &rig->err);
    if (rig->status == QUERN_OK) {
        fuzz_read_text(rig, reply.owner);
        fuzz_read_text(rig, reply.id);
        fuzz_require(reply.lease_left_ms >= 0);
    }
}

static void do_tick(struct fuzz_rig *rig)
{
    struct qn_task tasks[TICKS_MAX];
    struct qn_tick ticks[TICKS_MAX];
    size_t count = fuzz_byte(rig->input) % (TICKS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = fuzz_byte(rig->input);
        tasks[i] = make_tick_task(rig);
        ticks[i] = (struct qn_tick){.queue = tasks[i].queue,
                                    .name = pick_entry(rig),
                                    .revision = fuzz_byte(rig->input),
                                    .known_s = byte & 15,
                                    .tick_s = byte >> 4,
                                    .what = byte & 1 ? QN_TICK_ENQUEUE : QN_TICK_SKIP,
                                    .task = byte & 1 ? &tasks[i] : NULL};
    }
    struct qn_ticks call = {
        .stamp = {8, ++rig->sequence}, .epoch = UINT64_MAX >> 2, .ticks = ticks, .count = count};
    rig->status = qn_schedule_tick(rig->broker, &call, &rig->err);
}

static void do_key(struct fuzz_rig *rig, uint8_t choice)
{
    const struct qn_entry_key key = {
        .queue = fuzz_pick_queue(rig), .name = pick_entry(rig), .revision = QN_REVISION_ANY};
    if (choice == 0) {
        rig->status = qn_schedule_remove(rig->broker, &key, &rig->err);
    } else if (choice == 1) {
        enum qn_entry_pause what = (enum qn_entry_pause)(1 + fuzz_byte(rig->input) % 4);
        rig->status = qn_schedule_pause(rig->broker, &key, what, &rig->err);
    } else {
        rig->status = qn_schedule_history(rig->broker, &key, on_event, rig, &rig->err);
    }
}

static void do_trigger(struct fuzz_rig *rig)
{
    const struct qn_task task = make_tick_task(rig);
    const struct qn_trigger trigger = {
        .stamp = {8, ++rig->sequence}, .name = pick_entry(rig), .task = &task};
    rig->status = qn_schedule_trigger(rig->broker, &trigger, &rig->err);
}

void fuzz_do_schedule(struct fuzz_rig *rig)
{
    const struct qn_entry_filter all = {0};
    const struct qn_record record = {.id = "host:1:id"};
    uint8_t choice = fuzz_byte(rig->input) % 10;
    switch (choice) {
    case 3:
        do_put(rig);
        break;
    case 4:
        do_lead(rig);
        break;
    case 5:
        do_tick(rig);
        break;
    case 6:
        do_trigger(rig);
        break;
    case 7:
        rig->status = qn_schedule_list(rig->broker, &all, on_entry, rig, &rig->err);
        break;
    case 8:
        rig->status = qn_schedule_claim(rig->broker, UINT64_MAX >> 2, &rig->err);
        break;
    case 9:
        rig->status = qn_schedule_record(rig->broker, &record, &rig->err);
        break;
    default:
        do_key(rig, choice);
    }
}
