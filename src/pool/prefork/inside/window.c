/* SPDX-License-Identifier: MIT */
/* window.c - the order of items: idle children first, then short ones behind short ones.
 *
 * Waiting items are placed in their order. A window is filled again when half of it is used up, so
 * that several items share a write; in a round each child gets one item before any gets two.
 *
 * An item is in the window of its child before it is encoded, without the mutex; until its slot in
 * the page says QUEUED it cannot be taken out. The head has begun as soon as it is the head: its
 * child runs nothing else. */
#include "pool/prefork/inside/window.h"

#include <string.h>

#include "base/assert.h"
#include "pool/prefork/inside/children.h"
#include "pool/prefork/inside/cpu_watch.h"

static uint32_t free_slot(const struct qn_prefork_child *child)
{
    uint32_t slot = 0;
    while ((child->slots & (1U << slot)) != 0) {
        slot++;
    }
    QN_ASSERT(slot < QN_PAGE_SLOTS);
    return slot;
}

static bool has_room(const struct qn_prefork_child *child)
{
    const struct qn_prefork_options *options = &child->prefork->options;
    return !child->retiring && child->is_ready && child->count < options->window &&
           (options->child_runs_max == 0 || child->runs < options->child_runs_max);
}

/* Puts it into the list of children with room that it belongs to. low: only half of a window may be
 * used. */
static void list_room(struct qn_prefork_child *child, bool low)
{
    struct qn_prefork *prefork = child->prefork;
    const struct qn_prefork_item *head = child->count > 0 ? child->window[0] : NULL;
    if (!has_room(child)) {
        qn_list_remove(&child->room_node);
    } else if (head == NULL) {
        qn_list_remove(&child->room_node);
        qn_list_prepend(&prefork->idle, &child->room_node); /* the warmest one is used first */
    } else if (head->is_short && (!low || child->count <= prefork->options.window / 2)) {
        qn_list_remove(&child->room_node);
        qn_list_append(&prefork->partial, &child->room_node);
    }
}

/* Without a look at the item, which may be freed. */
static void forget(struct qn_prefork_child *child, uint32_t place, uint32_t slot)
{
    child->count--;
    memmove(&child->window[place], &child->window[place + 1],
            (child->count - place) * sizeof(struct qn_prefork_item *));
    child->slots &= ~(1U << slot);
    if (place == 0) {
        child->head_begun = false;
        qn_cpu_watch_end(child);
    }
}

void qn_window_remove(struct qn_prefork_child *child, uint32_t place)
{
    struct qn_prefork_item *item = child->window[place];
    item->child = NULL;
    forget(child, place, item->slot);
}

void qn_window_put_back(struct qn_prefork_child *child, struct qn_prefork_item *item, uint32_t slot)
{
    memmove(&child->window[1], &child->window[0], child->count * sizeof(struct qn_prefork_item *));
    child->window[0] = item;
    child->count++;
    child->slots |= 1U << slot;
    child->head_begun = true;
    item->slot = slot;
    item->child = child;
}

static uint32_t place_of(const struct qn_prefork_item *item)
{
    const struct qn_prefork_child *child = item->child;
    uint32_t place = 0;
    while (place < child->count && child->window[place] != item) {
        place++;
    }
    QN_ASSERT(place < child->count);
    return place;
}

/* The place of an item that has not begun, and has been taken from the child; -1: too late. */
static int take_place(struct qn_prefork_item *item)
{
    struct qn_prefork_child *child = item->child;
    uint32_t place = place_of(item);
    if ((place == 0 && child->head_begun) ||
        !qn_page_take(child->page, item->slot, item->sequence)) {
        return -1;
    }
    child->runs--;
    return (int)place;
}

bool qn_window_take(struct qn_prefork_item *item)
{
    struct qn_prefork_child *child = item->child;
    int place = take_place(item);
    if (place < 0) {
        return false;
    }
    qn_window_remove(child, (uint32_t)place);
    if (child->count > 0) {
        list_room(child, true);
    }
    return true;
}

void qn_window_take_all(struct qn_prefork_child *child)
{
    for (uint32_t place = child->count; place-- > 0;) {
        struct qn_prefork_item *item = child->window[place];
        if (take_place(item) >= 0) {
            qn_window_remove(child, place);
            qn_list_prepend(&child->prefork->waiting, &item->node);
        }
    }
}

void qn_window_advance(struct qn_prefork_child *child)
{
    struct qn_prefork *prefork = child->prefork;
    struct qn_prefork_item *item = child->count > 0 ? child->window[0] : NULL;
    bool is_lost = child->is_ended && item != NULL &&
                   qn_page_is_queued(child->page, item->slot, item->sequence);
    if (item != NULL && !child->head_begun && !child->is_closing && !is_lost) {
        child->head_begun = true;
        qn_cpu_watch_begin(child);
        (void)pthread_mutex_unlock(&prefork->mutex);
        (void)prefork->ops.begin(item, true, prefork->user);
        (void)pthread_mutex_lock(&prefork->mutex);
    }
    if (child->count == 0 && prefork->options.child_runs_max != 0 &&
        child->runs >= prefork->options.child_runs_max) {
        child->retiring = true;
    }
    if (child->retiring) {
        qn_children_retire(child);
    } else {
        list_room(child, true);
    }
}

static struct qn_prefork_child *choose(struct qn_prefork *prefork,
                                       const struct qn_prefork_item *item)
{
    struct qn_list *node = qn_list_shift(&prefork->idle);
    if (node == NULL && item->is_short) {
        node = qn_list_shift(&prefork->partial);
    }
    return node == NULL ? NULL : QN_CONTAINER_OF(node, struct qn_prefork_child, room_node);
}

static void place_item(struct qn_prefork_child *child, struct qn_prefork_item *item)
{
    uint32_t slot = free_slot(child);
    child->slots |= 1U << slot;
    child->window[child->count++] = item;
    child->runs++;
    if (child->count == 1) {
        child->head_begun = true;
    }
    item->child = child;
    item->slot = slot;
    item->sequence = ++child->prefork->last_sequence;
}

enum prepared { PREPARED, REFUSED, TOO_LARGE, NO_MEMORY, KILLED };

/* Without the mutex. A large item is not sent behind another one: its bytes would wait in our
 * memory, and could not be taken back. */
static enum prepared prepare(struct qn_prefork *prefork, struct qn_prefork_item *item, bool is_head,
                             struct qn_bytes *ret_more)
{
    qn_buf_reset(&prefork->encoded);
    if (is_head && !prefork->ops.begin(item, false, prefork->user)) {
        return REFUSED;
    }
    if (!prefork->ops.encode(item, &prefork->encoded, ret_more, prefork->user)) {
        return NO_MEMORY;
    }
    return !is_head && qn_send_borrows(ret_more->size + prefork->encoded.size) ? TOO_LARGE
                                                                               : PREPARED;
}

static bool append(struct qn_prefork_child *child, const struct qn_prefork_item *item,
                   struct qn_bytes more)
{
    struct qn_prefork *prefork = child->prefork;
    const struct qn_send_item sent = {
        .header = {.kind = QN_FRAME_ITEM, .slot = (uint16_t)item->slot, .sequence = item->sequence},
        .settings = {.address_space_bytes = item->limits.address_space_bytes,
                     .cpu_ms = item->limits.cpu_ms,
                     .rss_max = prefork->options.child_rss_max},
        .body = {prefork->encoded.data, prefork->encoded.size},
        .more = more};
    return child->socket_fd < 0 || qn_send_item(&child->out, &sent);
}

static void give_up(struct qn_prefork *prefork, struct qn_prefork_item *item)
{
    static const struct qn_prefork_death none = {.backtrace = "", .stderr_text = ""};
    (void)pthread_mutex_unlock(&prefork->mutex);
    prefork->ops.died(item, false, &none, prefork->user);
    (void)pthread_mutex_lock(&prefork->mutex);
}

/* It was placed, but not sent. */
static void take_out(struct qn_prefork_child *child, struct qn_prefork_item *item,
                     enum prepared prepared)
{
    qn_window_remove(child, place_of(item));
    if (prepared == TOO_LARGE) {
        item->is_short = false;
        qn_list_prepend(&child->prefork->waiting, &item->node);
    } else {
        give_up(child->prefork, item);
    }
}

/* An item that `begin` has refused is not ours any more: its owner may have freed it. It
 * is the head, so it is still in its place. */
static void give(struct qn_prefork_child *child, struct qn_prefork_item *item)
{
    struct qn_prefork *prefork = child->prefork;
    struct qn_bytes more = {0};
    place_item(child, item);
    bool is_head = child->count == 1;
    uint32_t slot = item->slot;
    (void)pthread_mutex_unlock(&prefork->mutex);
    enum prepared prepared = prepare(prefork, item, is_head, &more);
    (void)pthread_mutex_lock(&prefork->mutex);
    if (prepared == PREPARED && item->is_killed && !is_head) {
        prepared = KILLED;
    }
    if (prepared == PREPARED) {
        qn_page_queue(child->page, item->slot, item->sequence);
        if (is_head) {
            qn_cpu_watch_begin(child);
        }
        if (append(child, item, more)) {
            child->is_dirty = true;
            list_room(child, false);
            return;
        }
        prepared = NO_MEMORY;
    }
    child->runs--;
    if (prepared == REFUSED) {
        forget(child, 0, slot);
    } else {
        take_out(child, item, prepared);
    }
    if (child->retiring) {
        qn_children_retire(child);
    } else {
        list_room(child, true);
    }
}

static void flush_dirty(struct qn_prefork *prefork)
{
    for (struct qn_list *node = prefork->children.next; node != &prefork->children;
         node = node->next) {
        struct qn_prefork_child *child = QN_CONTAINER_OF(node, struct qn_prefork_child, node);
        if (child->is_dirty) {
            child->is_dirty = false;
            qn_children_flush(child);
        }
    }
}

void qn_window_fill(struct qn_prefork *prefork)
{
    bool any = false;
    while (!qn_list_empty(&prefork->waiting) && !prefork->stopping) {
        struct qn_prefork_item *item =
            QN_CONTAINER_OF(prefork->waiting.next, struct qn_prefork_item, node);
        struct qn_prefork_child *child = choose(prefork, item);
        if (child == NULL) {
            break;
        }
        qn_list_remove(&item->node);
        give(child, item);
        any = true;
    }
    if (any) {
        flush_dirty(prefork);
    }
}
