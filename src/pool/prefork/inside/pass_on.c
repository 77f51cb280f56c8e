/* SPDX-License-Identifier: MIT */
/* pass_on.c - a pool of children as bytes, for the program that replaces this one by execve.
 *
 * The pool is frozen, so each event was handled as a whole. A child with items is described with
 * its window, with the bytes of a frame that has come in part, and with those that its socket did
 * not take yet. Its process, its page and what it sends meanwhile are not touched. Children without
 * items are not described: they read the end of their socket at the execve, and end.
 *
 * The bytes come from ourselves or from another version of this program, which the program was
 * asked for before; what does not fit is refused all the same. Their descriptors are in the kernel
 * and cannot be checked: a wrong one is found when it is used. */
#include "pool/prefork/inside/pass_on.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/cpu_watch.h"
#include "pool/prefork/inside/generations.h"
#include "pool/prefork/inside/window.h"

struct head {
    uint32_t generation_count;
    uint32_t child_count;
    uint64_t last_number;
    uint64_t last_sequence;
};

struct passed_generation {
    int32_t socket_fd;
    int32_t pid;
};

struct passed_item {
    uint64_t key;
    uint64_t sequence;
    uint32_t slot;
    uint32_t reserved;
};

enum flag {
    FLAG_HEAD_BEGUN = 1,
    FLAG_HAS_RUN = 2,
    FLAG_LIED = 4,
    FLAG_BY_US = 8,
    FLAG_WAS_LATE = 16,
    FLAG_CLOSING = 32,
    FLAG_HOSTILE = 64,
    FLAG_OVER_CPU = 128
};

/* Followed by the bytes of its three sizes. Times are of the monotonic clock. */
struct passed_child {
    uint64_t number;
    uint64_t oom_count;
    int64_t kill_at_ms;
    int64_t end_until_ms;
    uint64_t in_size;   /* read, and not a whole frame yet */
    uint64_t out_size;  /* not written yet */
    uint64_t tail_size; /* of its stderr */
    uint32_t generation;
    int32_t pid;
    int32_t pid_fd;
    int32_t socket_fd;
    int32_t page_fd;
    int32_t stderr_fd;
    uint32_t flags;
    uint32_t runs;
    uint32_t count;
    uint32_t reserved;
    struct passed_item window[QN_PAGE_SLOTS];
};

static struct qn_prefork_child *child_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_prefork_child, node);
}

static struct qn_generation *generation_of(struct qn_list *node)
{
    return QN_CONTAINER_OF(node, struct qn_generation, node);
}

/* Where a pool is described. */
struct description {
    struct qn_buf *out;
    struct qn_buf *fds;
    uint64_t (*key)(const struct qn_prefork_item *item);
    bool ok;
};

static void put(struct description *to, const void *data, size_t size)
{
    to->ok = to->ok && (size == 0 || qn_buf_append(to->out, data, size) == QUERN_OK);
}

static void put_fd(struct description *to, int fd)
{
    to->ok = to->ok && (fd < 0 || qn_buf_append(to->fds, &fd, sizeof fd) == QUERN_OK);
}

static uint32_t flags_of(const struct qn_prefork_child *child)
{
    return (child->head_begun ? FLAG_HEAD_BEGUN : 0U) | (child->has_run ? FLAG_HAS_RUN : 0U) |
           (child->lied ? FLAG_LIED : 0U) | (child->by_us ? FLAG_BY_US : 0U) |
           (child->was_late ? FLAG_WAS_LATE : 0U) | (child->is_closing ? FLAG_CLOSING : 0U) |
           (child->hostile != NULL ? FLAG_HOSTILE : 0U) | (child->over_cpu ? FLAG_OVER_CPU : 0U);
}

static void put_child(struct description *to, const struct qn_prefork_child *child,
                      uint32_t generation)
{
    const struct qn_send *send = &child->out;
    size_t before_size = send->before.size - send->sent;
    struct passed_child passed = {.number = child->number,
                                  .oom_count = child->oom_count,
                                  .kill_at_ms = child->kill_at_ms,
                                  .end_until_ms = child->end_until_ms,
                                  .in_size = child->reader.end - child->reader.begin,
                                  .out_size = before_size + send->more.size + send->after.size,
                                  .tail_size = child->tail.size,
                                  .generation = generation,
                                  .pid = child->pid,
                                  .pid_fd = child->pid_fd,
                                  .socket_fd = child->socket_fd,
                                  .page_fd = child->page_fd,
                                  .stderr_fd = child->tail.fd,
                                  .flags = flags_of(child),
                                  .runs = child->runs,
                                  .count = child->count};
    for (uint32_t i = 0; i < child->count; i++) {
        const struct qn_prefork_item *item = child->window[i];
        passed.window[i] = (struct passed_item){
            .key = to->key(item), .sequence = item->sequence, .slot = item->slot};
    }
    put(to, &passed, sizeof passed);
    if (passed.in_size > 0) {
        put(to, child->reader.data + child->reader.begin, passed.in_size);
    }
    if (before_size > 0) {
        put(to, send->before.data + send->sent, before_size);
    }
    put(to, send->more.data, send->more.size);
    put(to, send->after.data, send->after.size);
    put(to, child->tail.data, child->tail.size);
    put_fd(to, child->pid_fd);
    put_fd(to, child->socket_fd);
    put_fd(to, child->page_fd);
    put_fd(to, child->tail.fd);
}

static struct head count_all(struct qn_prefork *prefork)
{
    struct head head = {.last_number = prefork->last_number,
                        .last_sequence = prefork->last_sequence};
    for (struct qn_list *node = prefork->generations.next; node != &prefork->generations;
         node = node->next) {
        head.generation_count++;
    }
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        qn_window_take_all(child_of(node));
        head.child_count += child_of(node)->count > 0 ? 1 : 0;
    }
    return head;
}

static void put_children(struct description *to, struct qn_prefork *prefork,
                         const struct qn_generation *generation, uint32_t index)
{
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        const struct qn_prefork_child *child = child_of(node);
        if (child->generation == generation && child->count > 0) {
            put_child(to, child, index);
        }
    }
}

bool qn_pass_on_write(struct qn_prefork *prefork, struct qn_buf *out, struct qn_buf *fds,
                      uint64_t (*key)(const struct qn_prefork_item *item))
{
    struct description to = {.out = out, .fds = fds, .key = key, .ok = true};
    (void)pthread_mutex_lock(&prefork->mutex);
    struct head head = count_all(prefork);
    put(&to, &head, sizeof head);
    struct qn_list *generations = &prefork->generations;
    for (struct qn_list *node = generations->next; node != generations; node = node->next) {
        const struct qn_zygote *zygote = generation_of(node)->zygote;
        const struct passed_generation passed = {.socket_fd = qn_zygote_socket(zygote),
                                                 .pid = qn_zygote_pid(zygote)};
        put(&to, &passed, sizeof passed);
        put_fd(&to, passed.socket_fd);
    }
    uint32_t index = 0;
    for (struct qn_list *node = generations->next; node != generations; node = node->next) {
        put_children(&to, prefork, generation_of(node), index++);
    }
    (void)pthread_mutex_unlock(&prefork->mutex);
    return to.ok;
}

static void forget_child(struct qn_prefork_child *child)
{
    qn_list_remove(&child->node);
    child->tail.fd = -1;
    qn_tail_finish(&child->tail);
    qn_send_finish(&child->out);
    qn_frame_reader_finish(&child->reader);
    qn_page_free(child->page);
    child->generation->child_count--;
    qn_free(child);
}

void qn_pass_on_forget(struct qn_prefork *prefork)
{
    while (!qn_list_empty(&prefork->children)) {
        struct qn_prefork_child *child = child_of(prefork->children.next);
        if (child->count == 0) { /* it was not described: its descriptors are ours */
            const int fds[] = {child->pid_fd, child->socket_fd, child->page_fd, child->tail.fd};
            for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
                if (fds[i] >= 0) {
                    (void)close(fds[i]);
                }
            }
        }
        forget_child(child);
    }
    qn_children_free_removed(prefork);
    while (qn_list_shift(&prefork->waiting) != NULL) { /* the caller's items */
    }
    while (qn_list_shift(&prefork->refused) != NULL) {
    }
}

/* --- The next program ---------------------------------------------------------------------- */

struct source {
    const char *at;
    size_t left;
};

/* The next bytes; NULL: there are not so many. */
static const char *take(struct source *from, uint64_t size)
{
    if (size > from->left) {
        return NULL;
    }
    const char *data = from->at;
    from->at += size;
    from->left -= size;
    return data;
}

static bool copy(struct source *from, void *out, size_t size)
{
    const char *data = take(from, size);
    if (data != NULL) {
        memcpy(out, data, size);
    }
    return data != NULL;
}

static quern_status refuse(quern_error *err)
{
    return qn_error_set(err, QUERN_E_CORRUPT, "what the program before has left cannot be read");
}

static bool feed_reader(struct qn_frame_reader *reader, const char *data, uint64_t size)
{
    while (size > 0) {
        struct qn_room room = qn_frame_reader_room(reader);
        size_t part = room.size < size ? room.size : (size_t)size;
        if (room.data == NULL) {
            return false;
        }
        memcpy(room.data, data, part);
        qn_frame_reader_add(reader, part);
        data += part;
        size -= part;
    }
    return true;
}

/* The bytes behind it. False: they are not all there, or memory is out. */
static bool read_bytes(struct source *from, struct qn_prefork_child *child,
                       const struct passed_child *passed)
{
    const char *in = take(from, passed->in_size);
    const char *out = take(from, passed->out_size);
    const char *tail = take(from, passed->tail_size);
    size_t stderr_max = child->prefork->options.stderr_size_max;
    if (in == NULL || out == NULL || tail == NULL || passed->tail_size > 2 * stderr_max ||
        !qn_tail_init(&child->tail, passed->stderr_fd, stderr_max)) {
        return false;
    }
    memcpy(child->tail.data, tail, (size_t)passed->tail_size);
    child->tail.size = (size_t)passed->tail_size;
    return feed_reader(&child->reader, in, passed->in_size) &&
           (passed->out_size == 0 ||
            qn_buf_append(&child->out.before, out, (size_t)passed->out_size) == QUERN_OK);
}

static bool read_window(struct qn_prefork_child *child, const struct passed_child *passed,
                        const struct qn_prefork_passed_on *passed_on)
{
    for (uint32_t i = 0; i < passed->count; i++) {
        const struct passed_item *from = &passed->window[i];
        struct qn_prefork_item *item = passed_on->find(from->key, passed_on->user);
        if (item == NULL || from->slot >= QN_PAGE_SLOTS || (child->slots & 1U << from->slot) != 0) {
            return false;
        }
        item->child = child;
        item->sequence = from->sequence;
        item->slot = from->slot;
        item->is_killed = false;
        child->window[child->count++] = item;
        child->slots |= 1U << from->slot;
    }
    return true;
}

static void fill(struct qn_prefork_child *child, const struct passed_child *passed)
{
    child->socket_source = (struct qn_source){QN_SOURCE_SOCKET, child};
    child->stderr_source = (struct qn_source){QN_SOURCE_STDERR, child};
    child->number = passed->number;
    child->pid = passed->pid;
    child->pid_fd = passed->pid_fd;
    child->socket_fd = passed->socket_fd;
    child->page_fd = passed->page_fd;
    child->page = qn_page_map(passed->page_fd);
    child->head_begun = (passed->flags & FLAG_HEAD_BEGUN) != 0;
    child->sent_ready = true;
    child->is_ready = true;
    child->retiring = true;
    child->is_closing = (passed->flags & FLAG_CLOSING) != 0;
    child->has_run = (passed->flags & FLAG_HAS_RUN) != 0;
    child->lied = (passed->flags & FLAG_LIED) != 0;
    child->by_us = (passed->flags & FLAG_BY_US) != 0;
    child->over_cpu = (passed->flags & FLAG_OVER_CPU) != 0;
    child->was_late = (passed->flags & FLAG_WAS_LATE) != 0;
    child->hostile = (passed->flags & FLAG_HOSTILE) != 0
                         ? "it broke the rules just before its worker was restarted"
                         : NULL;
    child->runs = passed->runs;
    child->oom_count = passed->oom_count;
    child->ready_until_ms = QN_NEVER_MS;
    child->kill_at_ms = passed->kill_at_ms;
    child->end_until_ms = passed->end_until_ms;
    child->stderr_at_ms = QN_NEVER_MS;
    child->cpu_look_at_ms = QN_NEVER_MS;
    qn_list_init(&child->room_node);
    qn_frame_reader_init(&child->reader, child->prefork->options.frame_size_max);
    qn_send_init(&child->out);
}

static bool watch(struct qn_prefork *prefork, int fd, struct qn_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    return fd < 0 || epoll_ctl(prefork->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static struct qn_generation *generation_at(struct qn_prefork *prefork, uint32_t index)
{
    struct qn_list *node = prefork->generations.next->next; /* behind the newest one */
    while (index > 0 && node != &prefork->generations) {
        node = node->next;
        index--;
    }
    return node == &prefork->generations ? NULL : generation_of(node);
}

/* The pool of this program starts its own children beside it, up to its size in all. */
static void add_child(struct qn_prefork *prefork, struct qn_prefork_child *child)
{
    qn_list_append(&prefork->children, &child->node);
    child->generation->child_count++;
    prefork->live += child->is_closing ? 0 : 1;
    prefork->ready += child->is_closing ? 0 : 1;
    qn_children_set_timer(prefork, child->kill_at_ms);
    qn_children_set_timer(prefork, child->end_until_ms);
}

static quern_status read_child(struct qn_prefork *prefork, struct source *from,
                               const struct qn_prefork_passed_on *passed_on, quern_error *err)
{
    struct passed_child passed;
    if (!copy(from, &passed, sizeof passed) || passed.count == 0 || passed.count > QN_PAGE_SLOTS) {
        return refuse(err);
    }
    struct qn_generation *generation = generation_at(prefork, passed.generation);
    struct qn_prefork_child *child = qn_alloc_zero(1, sizeof *child);
    if (generation == NULL || child == NULL) {
        qn_free(child);
        return generation == NULL ? refuse(err) : qn_error_nomem(err);
    }
    child->prefork = prefork;
    child->generation = generation;
    fill(child, &passed);
    add_child(prefork, child);
    if (child->page == NULL || !read_bytes(from, child, &passed) ||
        !read_window(child, &passed, passed_on)) {
        return refuse(err);
    }
    if (!watch(prefork, child->socket_fd, &child->socket_source) ||
        !watch(prefork, child->tail.fd, &child->stderr_source)) {
        return qn_error_set(err, QUERN_E_FULL, "cannot watch a child: %s", strerror(errno));
    }
    if (child->head_begun) {
        qn_cpu_watch_begin(child); /* from now on: its own soft limit counts from its beginning */
    }
    qn_children_flush(child);
    return QUERN_OK;
}

static quern_status read_generation(struct qn_prefork *prefork, struct source *from,
                                    quern_error *err)
{
    struct passed_generation passed;
    struct qn_zygote *zygote = NULL;
    struct qn_generation *generation = NULL;
    if (!copy(from, &passed, sizeof passed) || passed.pid <= 1) {
        return refuse(err);
    }
    quern_status status = qn_zygote_take_over(passed.socket_fd, passed.pid, &zygote, err);
    return status == QUERN_OK ? qn_generations_add_old(prefork, zygote, &generation, err) : status;
}

quern_status qn_pass_on_read(struct qn_prefork *prefork,
                             const struct qn_prefork_passed_on *passed_on, quern_error *err)
{
    struct source from = {passed_on->state.data, passed_on->state.size};
    struct head head;
    quern_status status = copy(&from, &head, sizeof head) ? QUERN_OK : refuse(err);
    if (status != QUERN_OK) {
        return status;
    }
    prefork->last_number = head.last_number;
    prefork->last_sequence = head.last_sequence;
    for (uint32_t i = 0; i < head.generation_count && status == QUERN_OK; i++) {
        status = read_generation(prefork, &from, err);
    }
    for (uint32_t i = 0; i < head.child_count && status == QUERN_OK; i++) {
        status = read_child(prefork, &from, passed_on, err);
    }
    return status == QUERN_OK && from.left != 0 ? refuse(err) : status;
}
