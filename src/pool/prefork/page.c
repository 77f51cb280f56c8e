/* SPDX-License-Identifier: MIT */
/* page.c - a memfd with one word for each slot of a window.
 *
 * A word is the item's sequence and its state, so a stale frame, or a slot that was used again,
 * fails the comparison. The seals keep a child from shrinking the file, which would kill the worker
 * by SIGBUS at its next look. */
#include "pool/prefork/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bug.h"
#include "base/error.h"
#include "base/text/utf8.h"

enum state { QUEUED = 1, STARTED, TAKEN };

struct qn_page {
    _Atomic uint64_t slots[QN_PAGE_SLOTS];            /* sequence << 2 | state */
    _Atomic uint64_t cancel_sequences[QN_PAGE_SLOTS]; /* written after the reason */
    _Atomic uint32_t cancel_reasons[QN_PAGE_SLOTS];
    _Atomic uint32_t text_size;
    char text[QN_PAGE_TEXT_SIZE];
};

static struct qn_page *map(int fd)
{
    void *memory = mmap(NULL, sizeof(struct qn_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

quern_status qn_page_new(struct qn_page **ret_page, int *ret_fd, quern_error *err)
{
    int fd = memfd_create("quern-child", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return qn_error_set(err, QUERN_E_FULL, "no memory to share with a child: %s",
                            strerror(errno));
    }
    struct qn_page *page = NULL;
    if (ftruncate(fd, (off_t)sizeof *page) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        page = map(fd);
    }
    if (page == NULL) {
        quern_status status =
            qn_error_set(err, QUERN_E_FULL, "no memory to share with a child: %s", strerror(errno));
        (void)close(fd);
        return status;
    }
    *ret_page = page;
    *ret_fd = fd;
    return QUERN_OK;
}

struct qn_page *qn_page_map(int fd)
{
    return map(fd);
}

void qn_page_free(struct qn_page *page)
{
    if (page != NULL) {
        (void)munmap(page, sizeof *page);
    }
}

static uint64_t word(uint64_t sequence, enum state state)
{
    return sequence << 2 | (uint64_t)state;
}

static bool change(struct qn_page *page, uint32_t slot, uint64_t sequence, enum state state)
{
    QN_ASSERT(slot < QN_PAGE_SLOTS);
    uint64_t expected = word(sequence, QUEUED);
    if (QN_BUG(SLOT_NOT_COMPARED)) {
        expected = atomic_load(&page->slots[slot]);
    }
    return atomic_compare_exchange_strong(&page->slots[slot], &expected, word(sequence, state));
}

void qn_page_queue(struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    QN_ASSERT(slot < QN_PAGE_SLOTS);
    atomic_store(&page->slots[slot], word(sequence, QUEUED));
}

bool qn_page_start(struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    return change(page, slot, sequence, STARTED);
}

bool qn_page_take(struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    return change(page, slot, sequence, TAKEN);
}

bool qn_page_is_queued(const struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    return atomic_load(&page->slots[slot]) == word(sequence, QUEUED);
}

bool qn_page_is_started(const struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    return atomic_load(&page->slots[slot]) == word(sequence, STARTED);
}

void qn_page_cancel(struct qn_page *page, uint32_t slot, uint64_t sequence, uint32_t reason)
{
    atomic_store(&page->cancel_reasons[slot], reason);
    atomic_store(&page->cancel_sequences[slot], sequence);
}

uint32_t qn_page_cancelled(const struct qn_page *page, uint32_t slot, uint64_t sequence)
{
    bool cancelled = atomic_load(&page->cancel_sequences[slot]) == sequence;
    return cancelled ? atomic_load(&page->cancel_reasons[slot]) : 0;
}

struct qn_room qn_page_text_room(struct qn_page *page)
{
    return QN_ROOM_OF(page->text);
}

void qn_page_set_text_size(struct qn_page *page, uint32_t size)
{
    atomic_store(&page->text_size, size);
}

void qn_page_copy_text(const struct qn_page *page, struct qn_room out)
{
    char text[QN_PAGE_TEXT_SIZE];
    size_t size = atomic_load(&page->text_size);
    if (size > sizeof text) {
        size = sizeof text;
    }
    /* Once: what was checked must be what is used, however the child changes it meanwhile. */
    memcpy(text, page->text, size);
    char *end = memchr(text, '\0', size);
    if (end != NULL) {
        size = (size_t)(end - text);
    }
    (void)qn_utf8_sanitize(text, size, out.data, out.size);
}
