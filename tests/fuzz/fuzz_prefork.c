/* SPDX-License-Identifier: MIT */
/* fuzz_prefork.c - a child process that sends anything and writes anything to its page, and a
 * zygote that sends anything.
 *
 * There are no processes: the target is the other end of both sockets. The input is a list of
 * steps, a byte each with its operands: items are submitted, the child starts some as it should,
 * sends frames that fit or nearly fit, any bytes, or overwrites its page; the zygote sends packets
 * that fit or nearly fit, with and without descriptors; other threads take items back, cancel and
 * kill. However it goes, each item must end exactly once, and at most one of those that a dead
 * child leaves may have started. No process is signalled: pids are larger than any. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "lib_fuzz.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/ending.h"
#include "pool/prefork/inside/generations.h"
#include "pool/prefork/inside/receive.h"
#include "pool/prefork/inside/window.h"
#include "pool/prefork/zygote_internal.h"
#include "pool/prefork/zygote_wire.h"

enum { ITEMS = 16, STEPS_MAX = 256, FRAME_MAX = 4096, CANCEL_REASON = 3 };
enum { NO_PID = 0x40000000, CHILD_NUMBER = 1 }; /* a kernel's pids end at 2^22 */

struct fuzz_item {
    struct qn_prefork_item item;
    size_t more_size;
    int ends;
    bool is_ours; /* the pool does not have it */
};

static struct {
    struct qn_prefork prefork;
    struct fuzz_item items[ITEMS];
    struct qn_prefork_child *child; /* removed when it has no page: freed only at the end */
    struct qn_generation generation;
    int peer_fd;
    int zygote_fd; /* its end */
    int gone;
    int started;
    uint8_t verdicts; /* a bit for each refusal by an op */
} world;

static char bytes[65536];

static struct fuzz_item *of(struct qn_prefork_item *item)
{
    struct fuzz_item *ours = QN_CONTAINER_OF(item, struct fuzz_item, item);
    fuzz_require(ours >= world.items && ours < world.items + ITEMS);
    fuzz_require(!ours->is_ours);
    return ours;
}

static void end(struct qn_prefork_item *item)
{
    struct fuzz_item *ours = of(item);
    ours->ends++;
    ours->is_ours = true;
    fuzz_require(item->child == NULL);
}

static bool on_begin(struct qn_prefork_item *item, bool has_started, void *user)
{
    (void)user;
    bool goes = has_started || (world.verdicts & 1) == 0;
    if (!goes) {
        of(item)->is_ours = true;
    }
    return goes;
}

static bool on_encode(struct qn_prefork_item *item, struct qn_buf *out, struct qn_bytes *ret_more,
                      void *user)
{
    (void)user;
    *ret_more = (struct qn_bytes){bytes, of(item)->more_size};
    return (world.verdicts & 2) == 0 && qn_buf_append_text(out, "body") == QUERN_OK;
}

static bool on_frame(struct qn_prefork_item *item, uint16_t kind, struct qn_bytes body, void *user)
{
    (void)user;
    (void)of(item);
    fuzz_require(kind >= QN_PREFORK_KIND_FIRST && body.size <= FRAME_MAX);
    return (world.verdicts & 4) == 0;
}

static bool on_result(struct qn_prefork_item *item, struct qn_bytes body, void *user)
{
    (void)user;
    fuzz_require(body.size <= FRAME_MAX);
    if ((world.verdicts & 8) == 0) {
        end(item);
        return true;
    }
    return false;
}

static void on_died(struct qn_prefork_item *item, bool started,
                    const struct qn_prefork_death *death, void *user)
{
    (void)user;
    end(item);
    world.started += started ? 1 : 0;
    fuzz_require(memchr(death->backtrace, '\0', QN_PAGE_TEXT_SIZE + 1) != NULL);
}

static void on_gone(const char *why, void *user)
{
    (void)user;
    fuzz_require(why[0] != '\0');
    world.gone++;
}

static const struct qn_prefork_ops ops = {.begin = on_begin,
                                          .encode = on_encode,
                                          .frame = on_frame,
                                          .result = on_result,
                                          .died = on_died,
                                          .gone = on_gone};

static void make_pool(struct fuzz_input *input)
{
    struct qn_prefork *prefork = &world.prefork;
    memset(&world, 0, sizeof world);
    uint8_t byte = fuzz_byte(input);
    prefork->options = (struct qn_prefork_options){.size = 1,
                                                   .window = 1 + byte % QN_PAGE_SLOTS,
                                                   .child_runs_max = byte >> 5,
                                                   .frame_size_max = FRAME_MAX};
    prefork->ops = ops;
    prefork->epoll_fd = -1;
    prefork->wake_fd = -1;
    prefork->timer_ms = QN_NEVER_MS;
    prefork->live = 1;
    struct qn_list *const lists[] = {&prefork->waiting,    &prefork->refused, &prefork->children,
                                     &prefork->freed,      &prefork->idle,    &prefork->partial,
                                     &prefork->generations};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        qn_list_init(lists[i]);
    }
    qn_buf_init(&prefork->encoded, UINT32_MAX);
    (void)pthread_mutex_init(&prefork->mutex, NULL);
    (void)pthread_mutex_lock(&prefork->mutex);
    for (size_t i = 0; i < ITEMS; i++) {
        world.items[i].is_ours = true;
        qn_list_init(&world.items[i].item.node);
    }
}

static void make_zygote(void)
{
    struct qn_generation *generation = &world.generation;
    int fds[2];
    fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    const struct qn_zygote_process process = {.socket_fd = fds[0], .pid = getpid()};
    fuzz_require(qn_zygote_adopt(&process, &generation->zygote, NULL) == QUERN_OK);
    world.zygote_fd = fds[1];
    qn_list_append(&world.prefork.generations, &generation->node);
}

static void free_zygote(void)
{
    int fd = qn_zygote_socket(world.generation.zygote);
    qn_zygote_forget(world.generation.zygote);
    (void)close(fd);
    (void)close(world.zygote_fd);
}

static void make_child(struct qn_prefork_child *child)
{
    struct qn_prefork *prefork = &world.prefork;
    struct qn_generation *generation = &world.generation;
    int fds[2];
    int page_fd = -1;
    fuzz_require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    fuzz_require(qn_page_new(&child->page, &page_fd, NULL) == QUERN_OK);
    (void)close(page_fd);
    fuzz_require(qn_tail_init(&child->tail, -1, 0));
    child->prefork = prefork;
    child->generation = generation;
    child->number = prefork->last_number = CHILD_NUMBER;
    child->pid_fd = child->page_fd = -1;
    child->socket_fd = fds[0];
    child->ready_until_ms = child->kill_at_ms = child->end_until_ms = child->stderr_at_ms =
        QN_NEVER_MS;
    child->pid = 0;
    qn_list_init(&child->room_node);
    qn_frame_reader_init(&child->reader, FRAME_MAX);
    qn_send_init(&child->out);
    qn_list_append(&prefork->children, &child->node);
    generation->child_count = 1;
    world.child = child;
    world.peer_fd = fds[1];
}

static void submit(struct fuzz_input *input)
{
    uint8_t byte = fuzz_byte(input);
    struct fuzz_item *item = &world.items[byte % ITEMS];
    if (item->is_ours && item->ends == 0) {
        item->is_ours = false;
        item->item.is_short = (byte & 0x10) != 0;
        item->item.child = NULL;
        item->more_size = (byte & 0x20) != 0 ? sizeof bytes : (size_t)byte;
        qn_list_append(&world.prefork.waiting, &item->item.node);
    }
}

static void send_to_worker(const void *data, size_t size)
{
    (void)!send(world.peer_fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A frame whose fields are right, but for those that the input changes. */
static void send_frame(struct fuzz_input *input, uint16_t kind)
{
    struct qn_frame_header header = {.kind = kind, .size = fuzz_byte(input)};
    if (world.child->count > 0) {
        header.slot = (uint16_t)world.child->window[0]->slot;
        header.sequence = world.child->window[0]->sequence;
    }
    uint8_t change = fuzz_byte(input);
    header.slot = (uint16_t)(header.slot + ((change & 0x80) != 0 ? 1 : 0));
    header.sequence += (change & 0x40) != 0 ? 1 : 0;
    header.size = (change & 0x20) != 0 ? (uint32_t)fuzz_word(input) : header.size;
    header.kind = (change & 0x10) != 0 ? (uint16_t)fuzz_word(input) : header.kind;
    send_to_worker(&header, sizeof header);
    send_to_worker(bytes, header.size < FRAME_MAX ? header.size : FRAME_MAX);
}

static void start_head(void)
{
    const struct qn_prefork_child *child = world.child;
    if (child->count > 0) {
        (void)qn_page_start(child->page, child->window[0]->slot, child->window[0]->sequence);
    }
}

static void touch_item(struct fuzz_input *input)
{
    uint8_t byte = fuzz_byte(input);
    struct fuzz_item *item = &world.items[byte % ITEMS];
    if (item->is_ours || item->item.child == NULL) {
        return;
    }
    if ((byte & 0x10) != 0) {
        qn_page_cancel(world.child->page, item->item.slot, item->item.sequence, CANCEL_REASON);
    } else if (qn_window_take(&item->item)) {
        item->is_ours = true;
    }
}

static void read_peer(void)
{
    static char drain[65536];
    (void)!recv(world.peer_fd, drain, sizeof drain, MSG_DONTWAIT);
    qn_children_flush(world.child);
}

/* A packet whose fields are right, but for those that the input changes. */
static void send_packet(struct fuzz_input *input)
{
    uint8_t kind = fuzz_byte(input);
    uint8_t change = fuzz_byte(input);
    struct qn_zygote_packet packet = {.kind = kind % 8,
                                      .number = CHILD_NUMBER,
                                      .error_number = kind % 8 == QN_ZYGOTE_REFUSED ? 11 : 0,
                                      .pid = NO_PID};
    struct qn_zygote_fds fds = {.count = kind % 8 == QN_ZYGOTE_STARTED ? 1 : 0};
    packet.number += (change & 0x80) != 0 ? fuzz_word(input) : 0;
    packet.pid = (change & 0x40) != 0 ? (int32_t)fuzz_byte(input) - 128 : packet.pid;
    packet.pid += packet.pid > 1 && packet.pid < NO_PID ? NO_PID : 0;
    packet.status = (change & 0x20) != 0 ? (int32_t)fuzz_word(input) : 0;
    packet.usage.ru_maxrss = (change & 0x10) != 0 ? (long)fuzz_word(input) : 0;
    packet.error_number = (change & 8) != 0 ? (int32_t)fuzz_word(input) : packet.error_number;
    fds.count = (change & 4) != 0 ? fuzz_byte(input) % (QN_ZYGOTE_SLOTS + 1) : fds.count;
    size_t size = (change & 2) != 0 ? fuzz_byte(input) % sizeof packet : sizeof packet;
    for (size_t i = 0; i < fds.count; i++) {
        fds.items[i] = world.peer_fd; /* any descriptor is as good: it is no process */
    }
    (void)qn_zygote_wire_send(world.zygote_fd, (struct qn_bytes){&packet, size},
                              fds.count > 0 ? &fds : NULL);
}

/* Of a step that does not touch the child. */
static void let_zygote_send(struct fuzz_input *input)
{
    for (int count = fuzz_byte(input) % 4; count >= 0; count--) {
        send_packet(input);
    }
    qn_generations_read(&world.prefork, &world.generation);
}

static void step(struct fuzz_input *input)
{
    char text[256];
    uint8_t byte = fuzz_byte(input);
    if (byte % 13 == 12) {
        let_zygote_send(input);
    }
    if (world.child->page == NULL) {
        return;
    }
    switch (byte % 13) {
    case 12:
        break;
    case 0:
        submit(input);
        break;
    case 1:
        send_frame(input, QN_FRAME_READY);
        /* As if the zygote had reported it. */
        world.child->pid = world.child->pid == 0 ? NO_PID : world.child->pid;
        break;
    case 2:
        start_head();
        break;
    case 3:
        send_frame(input, QN_FRAME_RESULT);
        break;
    case 4:
        send_frame(input, QN_PREFORK_KIND_FIRST);
        break;
    case 5:
        send_to_worker(text, fuzz_text(input, text, sizeof text));
        break;
    case 6:
        memset(world.child->page, fuzz_byte(input), 4096);
        break;
    case 7:
        touch_item(input);
        break;
    case 8:
        world.verdicts = fuzz_byte(input);
        world.verdicts &= fuzz_byte(input);
        break;
    case 9:
        read_peer();
        break;
    case 10:
        send_frame(input, QN_FRAME_RESULT_LAST);
        break;
    default:
        start_head();
        send_frame(input, QN_FRAME_RESULT);
    }
    qn_receive_some(world.child);
    qn_window_fill(&world.prefork);
}

static void finish(void)
{
    struct qn_prefork *prefork = &world.prefork;
    (void)close(world.peer_fd);
    world.verdicts = 0;
    if (world.child->page != NULL) {
        qn_receive_rest(world.child);
        qn_ending_finish(world.child);
    }
    fuzz_require(world.started <= 1 && world.gone <= 1);
    fuzz_require(prefork->live == 0 && prefork->ready == 0);
    fuzz_require(qn_list_empty(&prefork->idle) && qn_list_empty(&prefork->partial));
    qn_ending_give_up(prefork, &prefork->waiting);
    for (size_t i = 0; i < ITEMS; i++) {
        fuzz_require(world.items[i].is_ours);
        fuzz_require(world.items[i].ends <= 1);
    }
    qn_children_free_removed(prefork);
    free_zygote();
    qn_buf_finish(&prefork->encoded);
    (void)pthread_mutex_unlock(&prefork->mutex);
    (void)pthread_mutex_destroy(&prefork->mutex);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.data = data, .size = size};
    struct qn_prefork_child *child = qn_alloc_zero(1, sizeof *child);
    fuzz_require(child != NULL);
    make_pool(&input);
    make_zygote();
    make_child(child);
    for (int i = 0; i < STEPS_MAX && input.size > 0; i++) {
        step(&input);
    }
    finish();
    return 0;
}
