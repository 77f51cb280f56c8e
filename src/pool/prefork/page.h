/* SPDX-License-Identifier: MIT */
/* page.h - the memory that the worker shares with one child.
 *
 * It says of each item in the child's window whether it has started, so that both sides decide it
 * by compare and exchange: the child starts an item, or the worker takes it back, never both. It
 * also has the reason of a cancellation, and room for the text that the child's crash handler
 * leaves. The child may write anything at any time: the worker never relies on what it reads here
 * for more than this child's items. Its size is sealed. Any thread. */
#ifndef QN_POOL_PREFORK_PAGE_H
#define QN_POOL_PREFORK_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/view.h"
#include "quern/status.h"

enum { QN_PAGE_SLOTS = 4, QN_PAGE_TEXT_SIZE = 8192 };

struct qn_page;

/* QUERN_E_FULL: the system has no descriptor or memory for it. ret_fd: the caller's. */
QUERN_NODISCARD quern_status qn_page_new(struct qn_page **ret_page, int *ret_fd, quern_error *err);
/* In the child, which then needs the descriptor no more; NULL: it cannot be mapped. */
struct qn_page *qn_page_map(int fd);
void qn_page_free(struct qn_page *page); /* unmaps it; NULL is fine */

/* The worker puts an item into a slot. sequence: of the pool, never the same twice. */
void qn_page_queue(struct qn_page *page, uint32_t slot, uint64_t sequence);
/* The child is about to run it; false: it was taken back. */
bool qn_page_start(struct qn_page *page, uint32_t slot, uint64_t sequence);
/* The worker takes it back; false: it has started. */
bool qn_page_take(struct qn_page *page, uint32_t slot, uint64_t sequence);
bool qn_page_is_queued(const struct qn_page *page, uint32_t slot, uint64_t sequence);
bool qn_page_is_started(const struct qn_page *page, uint32_t slot, uint64_t sequence);

/* reason: not 0 */
void qn_page_cancel(struct qn_page *page, uint32_t slot, uint64_t sequence, uint32_t reason);
/* 0: it was not cancelled. Async-signal-safe. */
uint32_t qn_page_cancelled(const struct qn_page *page, uint32_t slot, uint64_t sequence);

/* The child's room for a text, and how much of it is used. Async-signal-safe. */
struct qn_room qn_page_text_room(struct qn_page *page);
void qn_page_set_text_size(struct qn_page *page, uint32_t size);
/* Copies the text out, as valid UTF-8 that ends with a NUL. */
void qn_page_copy_text(const struct qn_page *page, struct qn_room out);

#endif
