/* SPDX-License-Identifier: MIT */
/* stderr_tail.c - the last bytes of a text, in a buffer of twice their size, so that moving them is
 * rare. */
#include "pool/exec/stderr_tail.h"

#include <string.h>

void qn_stderr_tail_init(struct qn_stderr_tail *tail, size_t kept_max)
{
    *tail = (struct qn_stderr_tail){.kept_max = kept_max};
    qn_buf_init(&tail->text, 2 * kept_max);
}

static void drop(struct qn_stderr_tail *tail, size_t count)
{
    struct qn_buf *text = &tail->text;
    if (count > 0) {
        memmove(text->data, text->data + count, text->size - count);
        text->size -= count;
        text->data[text->size] = '\0';
        tail->is_cut = true;
    }
}

void qn_stderr_tail_add(struct qn_stderr_tail *tail, const char *data, size_t size)
{
    if (size > tail->kept_max) {
        data += size - tail->kept_max;
        size = tail->kept_max;
        tail->is_cut = true;
    }
    if (size == 0) {
        return;
    }
    if (tail->text.size + size > tail->text.size_max) {
        drop(tail, tail->text.size + size - tail->kept_max);
    }
    if (qn_buf_append(&tail->text, data, size) != QUERN_OK) {
        return;
    }
}

void qn_stderr_tail_trim(struct qn_stderr_tail *tail, size_t size_max)
{
    drop(tail, tail->text.size > size_max ? tail->text.size - size_max : 0);
}
