/* SPDX-License-Identifier: MIT */
/* estate.c - the memfd between two programs of one process, and runs as bytes.
 *
 * It is sealed, so that what was written is what is read. Sizes are checked; a version that is not
 * ours is refused before anything of it is used. */
#include "worker/hand_over/estate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bug.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "task/limits.h"
#include "worker/internal.h"
#include "worker/run/execute.h"
#include "worker/run/mux.h"
#include "worker/trace/run_trace.h"

#define MARK UINT64_C(0x717565726e657374) /* "quernest" */

struct head {
    uint64_t mark;
    uint32_t version;
    uint32_t fd_count; /* they follow, as int */
};

/* --- The memfd ----------------------------------------------------------------------------- */

static bool write_all(int fd, struct qn_bytes bytes)
{
    size_t done = 0;
    while (done < bytes.size) {
        ssize_t count = write(fd, (const char *)bytes.data + done, bytes.size - done);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        done += (size_t)count;
    }
    return true;
}

quern_status qn_estate_write(struct qn_bytes fds, struct qn_bytes body, int *ret_fd,
                             quern_error *err)
{
    const struct head head = {
        .mark = MARK, .version = QN_ESTATE_VERSION, .fd_count = (uint32_t)(fds.size / sizeof(int))};
    int fd = memfd_create("quern-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || !write_all(fd, (struct qn_bytes){&head, sizeof head}) || !write_all(fd, fds) ||
        !write_all(fd, body) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
        quern_status status = qn_error_set(
            err, QUERN_E_FULL, "no room for the state of the worker: %s", strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    *ret_fd = fd;
    return QUERN_OK;
}

static bool read_all(int fd, char *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = pread(fd, data + done, size - done, (off_t)done);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        done += (size_t)count;
    }
    return true;
}

static bool set_open(int fd, bool open)
{
    return fcntl(fd, F_SETFD, open ? 0 : FD_CLOEXEC) == 0;
}

/* Of the descriptors in it. Each of them is tried. */
static bool set_all_open(const struct qn_estate *estate, bool open)
{
    struct head head;
    memcpy(&head, estate->data, sizeof head);
    bool ok = true;
    for (uint32_t i = 0; i < head.fd_count; i++) {
        int fd;
        memcpy(&fd, estate->data + sizeof head + i * sizeof fd, sizeof fd);
        ok = set_open(fd, open) && ok;
    }
    return ok;
}

static quern_status check(struct qn_estate *estate, quern_error *err)
{
    struct head head = {0};
    if (estate->size >= sizeof head) {
        memcpy(&head, estate->data, sizeof head);
    }
    if (head.mark != MARK || head.fd_count > (estate->size - sizeof head) / sizeof(int)) {
        return qn_error_set(err, QUERN_E_INVALID, "the state of a worker cannot be read");
    }
    if (head.version != QN_ESTATE_VERSION) {
        return qn_error_set(err, QUERN_E_UNSUPPORTED,
                            "the state of the worker has version %u, this program reads %u",
                            head.version, (unsigned)QN_ESTATE_VERSION);
    }
    size_t begin = sizeof head + head.fd_count * sizeof(int);
    estate->body = (struct qn_bytes){estate->data + begin, estate->size - begin};
    return QUERN_OK;
}

static quern_status load(int fd, struct qn_estate *ret_estate, quern_error *err)
{
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size <= 0) {
        return qn_error_set(err, QUERN_E_INVALID, "there is no state of a worker in descriptor %d",
                            fd);
    }
    struct qn_estate estate = {.size = (size_t)info.st_size};
    estate.data = qn_alloc(estate.size);
    if (estate.data == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status =
        read_all(fd, estate.data, estate.size)
            ? check(&estate, err)
            : qn_error_set(err, QUERN_E_INVALID, "descriptor %d: %s", fd, strerror(errno));
    if (status != QUERN_OK) {
        qn_estate_finish(&estate);
        return status;
    }
    *ret_estate = estate;
    return QUERN_OK;
}

quern_status qn_estate_read(int fd, struct qn_estate *ret_estate, quern_error *err)
{
    struct qn_estate estate;
    quern_status status = load(fd, &estate, err);
    if (status != QUERN_OK) {
        return status;
    }
    if (!set_open(fd, false) || !set_all_open(&estate, false)) {
        qn_estate_finish(&estate);
        return qn_error_set(err, QUERN_E_INVALID, "a descriptor of the state is not open");
    }
    *ret_estate = estate;
    return QUERN_OK;
}

void qn_estate_finish(struct qn_estate *estate)
{
    qn_free(estate->data);
    *estate = (struct qn_estate){0};
}

bool qn_estate_keep_open(int fd, bool open)
{
    struct qn_estate estate;
    if (load(fd, &estate, NULL) != QUERN_OK) {
        return false;
    }
    bool ok = set_all_open(&estate, open) && set_open(fd, open);
    qn_estate_finish(&estate);
    return ok;
}

/* --- Runs ---------------------------------------------------------------------------------- */

/* A field with the bytes that it has. With a writer it is put, with a reader it is taken. */
struct field {
    void *data;
    size_t size;
    bool is_bool;
};
#define FIELD(name)                                                                                \
    {                                                                                              \
        &(name), sizeof(name), _Generic((name), bool : true, default : false)                      \
    }
enum { FIELDS = 48, TEXT_MAX = 1 << 30, NO_PROGRESS = -2 };

/* The numbers of a task and its lease. Returns how many there are. */
static size_t list_lease(struct qn_leased *leased, struct field fields[FIELDS])
{
    struct qn_task *task = &leased->task;
    const struct field all[] = {FIELD(task->payload_size),
                                FIELD(task->retry_max),
                                FIELD(task->retry.kind),
                                FIELD(task->retry.base_ms),
                                FIELD(task->retry.cap_ms),
                                FIELD(task->process_at_ms),
                                FIELD(task->timeout_ms),
                                FIELD(task->deadline_at_ms),
                                FIELD(task->unique_ms),
                                FIELD(task->retention_ms),
                                FIELD(task->header_count),
                                FIELD(task->state),
                                FIELD(task->delay_ms),
                                FIELD(task->unique_span_ms),
                                FIELD(task->unique_until),
                                FIELD(task->on_duplicate),
                                FIELD(task->start_by_at_ms),
                                FIELD(task->priority),
                                FIELD(task->kill_after_ms),
                                FIELD(task->cpu_ms),
                                FIELD(task->memory_max),
                                FIELD(leased->token),
                                FIELD(leased->fence),
                                FIELD(leased->row),
                                FIELD(leased->retry_count),
                                FIELD(leased->crash_count),
                                FIELD(leased->level),
                                FIELD(leased->life_ms),
                                FIELD(leased->cause),
                                FIELD(leased->queue_index),
                                FIELD(leased->leased_at_boot_ms),
                                FIELD(leased->started)};
    _Static_assert(sizeof all / sizeof all[0] <= FIELDS, "room for all");
    memcpy(fields, all, sizeof all);
    return sizeof all / sizeof all[0];
}

/* Clocks of the machine go on while the program is replaced. */
static size_t list_run(struct quern_run *run, struct field fields[FIELDS])
{
    const struct field all[] = {FIELD(run->lost),
                                FIELD(run->lease_unsure),
                                FIELD(run->acked),
                                FIELD(run->acks_first),
                                FIELD(run->killed),
                                FIELD(run->leased_at_mono_ns),
                                FIELD(run->started_at_mono_ns),
                                FIELD(run->killed_at_mono_ns),
                                FIELD(run->started_at_wall_ms),
                                FIELD(run->lease_until_boot_ms),
                                FIELD(run->timeout_ms),
                                FIELD(run->timeout_at_boot_ms),
                                FIELD(run->deadline_at_ms),
                                FIELD(run->grace_ms),
                                FIELD(run->child_item.limits),
                                FIELD(run->child_item.is_short)};
    _Static_assert(sizeof all / sizeof all[0] <= FIELDS, "room for all");
    memcpy(fields, all, sizeof all);
    return sizeof all / sizeof all[0];
}

static void put_fields(struct qn_writer *writer, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_bytes_put(writer, fields[i].data, fields[i].size);
    }
}

static void take_fields(struct qn_reader *reader, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const void *data = qn_bytes_take(reader, fields[i].size);
        if (data != NULL) {
            memcpy(fields[i].data, data, fields[i].size);
        }
        if (fields[i].is_bool) { /* any other byte there would be undefined */
            unsigned char *byte = fields[i].data;
            *byte = *byte != 0 ? 1 : 0;
        }
    }
}

void qn_estate_put_run(struct qn_writer *writer, const struct quern_run *run)
{
    struct field fields[FIELDS];
    struct qn_leased leased = *run->leased;
    const struct qn_task *task = &leased.task;
    leased.token = QN_BUG(TOKEN_NOT_HANDED_OVER) ? 0 : leased.token;
    put_fields(writer, fields, list_lease(&leased, fields));
    qn_bytes_put_text(writer, task->id);
    qn_bytes_put_text(writer, task->queue);
    qn_bytes_put_text(writer, task->type);
    qn_bytes_put_text(writer, task->unique_key);
    qn_bytes_put_text(writer, task->group);
    qn_bytes_put_text(writer, task->limit_key);
    for (size_t i = 0; i < task->header_count; i++) {
        qn_bytes_put_text(writer, task->headers[i].name);
        qn_bytes_put_text(writer, task->headers[i].value);
    }
    qn_bytes_put(writer, task->payload, task->payload_size);
    struct quern_run own = {.lost = run->lost,
                            .lease_unsure = run->lease_unsure,
                            .acked = run->acked,
                            .acks_first = run->acks_first,
                            .killed = run->killed,
                            .leased_at_mono_ns = run->leased_at_mono_ns,
                            .started_at_mono_ns = run->started_at_mono_ns,
                            .killed_at_mono_ns = run->killed_at_mono_ns,
                            .started_at_wall_ms = run->started_at_wall_ms,
                            .lease_until_boot_ms = run->lease_until_boot_ms,
                            .timeout_ms = run->timeout_ms,
                            .timeout_at_boot_ms = run->timeout_at_boot_ms,
                            .deadline_at_ms = run->deadline_at_ms,
                            .grace_ms = run->grace_ms};
    own.child_item.limits = run->child_item.limits;
    own.child_item.is_short = run->child_item.is_short;
    put_fields(writer, fields, list_run(&own, fields));
    qn_bytes_put_number(writer, atomic_load(&run->cancel_reason));
    qn_bytes_put_number(writer, atomic_load(&run->cancelled_at_mono_ns));
    bool has_progress = run->progress != NULL && run->progress_is_new;
    qn_bytes_put_number(writer, has_progress ? run->progress->percent : NO_PROGRESS);
    qn_bytes_put_text(writer, has_progress ? run->progress->note : NULL);
}

/* Its strings are those of the bytes. */
static bool get_lease(struct qn_reader *reader, struct qn_leased *leased,
                      quern_header **ret_headers)
{
    struct field fields[FIELDS];
    struct qn_task *task = &leased->task;
    take_fields(reader, fields, list_lease(leased, fields));
    task->id = qn_bytes_text(reader, TEXT_MAX);
    task->queue = qn_bytes_text(reader, TEXT_MAX);
    task->type = qn_bytes_text(reader, TEXT_MAX);
    task->unique_key = qn_bytes_text(reader, TEXT_MAX);
    task->group = qn_bytes_text(reader, TEXT_MAX);
    task->limit_key = qn_bytes_text(reader, TEXT_MAX);
    if (!reader->ok || task->header_count > reader->left || task->payload_size > reader->left) {
        return false;
    }
    if (task->header_count > 0) {
        *ret_headers = qn_alloc_zero(task->header_count, sizeof(quern_header));
        if (*ret_headers == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < task->header_count; i++) {
        (*ret_headers)[i].name = qn_bytes_text(reader, TEXT_MAX);
        (*ret_headers)[i].value = qn_bytes_text(reader, TEXT_MAX);
        if ((*ret_headers)[i].name == NULL || (*ret_headers)[i].value == NULL) {
            return false;
        }
    }
    task->headers = *ret_headers;
    task->payload = task->payload_size > 0 ? qn_bytes_take(reader, task->payload_size) : NULL;
    return reader->ok && task->id != NULL && task->queue != NULL && task->type != NULL;
}

/* The queues may stand in another order now, or this one is served no more: then its pause is not
 * known, and that of the first one counts. */
static uint16_t find_queue(const struct quern_worker *worker, const char *queue)
{
    for (size_t i = 0; i < worker->queue_count; i++) {
        if (strcmp(worker->queue_names[i], queue) == 0) {
            return (uint16_t)i;
        }
    }
    return 0;
}

static void get_own(struct qn_reader *reader, struct quern_run *run)
{
    struct field fields[FIELDS];
    take_fields(reader, fields, list_run(run, fields));
    atomic_store(&run->cancel_reason,
                 (int)qn_bytes_number_in(reader, QN_REASON_NONE, QN_REASON_SHUTDOWN));
    atomic_store(&run->cancelled_at_mono_ns, qn_bytes_number(reader));
    struct qn_progress progress = {.percent =
                                       (int32_t)qn_bytes_number_in(reader, NO_PROGRESS, 100)};
    const char *note = qn_bytes_text(reader, QN_NOTE_SIZE_MAX);
    if (reader->ok && progress.percent > NO_PROGRESS) {
        (void)snprintf(progress.note, sizeof progress.note, "%s", note != NULL ? note : "");
        qn_run_post_progress(run, &progress);
    }
}

struct quern_run *qn_estate_get_run(struct qn_reader *reader, struct quern_worker *worker)
{
    struct qn_leased leased = {0};
    quern_header *headers = NULL;
    struct qn_leased *own = NULL;
    if (get_lease(reader, &leased, &headers)) {
        leased.queue_index = find_queue(worker, leased.task.queue);
        own = qn_leased_copy(NULL, &leased);
    }
    qn_free(headers);
    struct quern_run *run = own == NULL ? NULL : qn_run_new(NULL, own, &qn_execute_sink, worker);
    if (run == NULL) {
        qn_leased_free(own);
        return NULL;
    }
    run->entry = qn_mux_find(worker->mux, own->task.type);
    run->item.execute = qn_execute_item;
    run->in_child = true;
    qn_run_trace_begin(worker, run);
    get_own(reader, run);
    if (!reader->ok) {
        qn_run_free(run);
        return NULL;
    }
    return run;
}
