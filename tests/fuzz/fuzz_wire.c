/* SPDX-License-Identifier: MIT */
/* fuzz_wire.c - what a child says of its runs, and what a zygote announces: the bodies of frames,
 * behind a byte that says which. What was accepted is written and read again, and must be the same.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/utf8.h"
#include "lib_fuzz.h"
#include "worker/prefork/announce.h"
#include "worker/prefork/wire.h"
#include "worker/run/mux.h"

enum { END, PROGRESS, ANSWER, ANNOUNCE, KINDS };

static bool is_text(const char *text)
{
    return text == NULL || qn_utf8_valid(text, strlen(text));
}

static void free_fields(struct quern_run *run)
{
    qn_run_free_change(&run->change);
    qn_free(run->error);
    qn_free(run->stderr_text);
    qn_free(run->result);
}

static void check_end(const struct quern_run *run)
{
    fuzz_require(run->outcome == QN_OUTCOME_CRASHED
                     ? run->crashed
                     : run->outcome >= QUERN_DONE && run->outcome <= QUERN_SNOOZE);
    fuzz_require(is_text(run->error) && is_text(run->stderr_text));
    fuzz_require(run->error == NULL || strlen(run->error) <= QN_ERROR_TEXT_SIZE_MAX);
    fuzz_require(strlen(run->error_class) <= QN_ERROR_CLASS_SIZE_MAX);
    fuzz_require(run->again_in_ms >= -1 && run->again_at_ms >= -1);
    fuzz_require(run->result_size <= QN_PAYLOAD_SIZE_LIMIT);
    fuzz_require(run->change.payload_size <= QN_PAYLOAD_SIZE_LIMIT);
}

static void read_end(struct qn_bytes body)
{
    static struct quern_run run;
    static struct quern_run same;
    struct qn_buf first;
    struct qn_buf second;
    run = same = (struct quern_run){.again_in_ms = -1, .again_at_ms = -1};
    if (qn_wire_get_end(body, &run)) {
        check_end(&run);
        qn_buf_init(&first, UINT32_MAX);
        qn_buf_init(&second, UINT32_MAX);
        fuzz_require(qn_wire_put_end(&first, &run));
        fuzz_require(qn_wire_get_end((struct qn_bytes){first.data, first.size}, &same));
        fuzz_require(qn_wire_put_end(&second, &same));
        fuzz_require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
        qn_buf_finish(&first);
        qn_buf_finish(&second);
    }
    free_fields(&run);
    free_fields(&same);
}

static void read_progress(struct qn_bytes body)
{
    struct qn_progress progress;
    if (qn_wire_get_progress(body, &progress)) {
        fuzz_require(progress.percent >= 0 && progress.percent <= 100);
        fuzz_require(memchr(progress.note, '\0', sizeof progress.note) != NULL);
        fuzz_require(is_text(progress.note));
    }
}

static void read_answer(struct qn_bytes body)
{
    quern_error error;
    qn_wire_get_answer(body, &error);
    fuzz_require(memchr(error.text, '\0', sizeof error.text) != NULL);
}

static void read_announcement(struct qn_bytes body)
{
    quern_mux *mux = NULL;
    quern_mux *same = NULL;
    struct qn_buf first;
    struct qn_buf second;
    if (qn_announce_read(body, &mux, NULL) != QUERN_OK) {
        return;
    }
    qn_buf_init(&first, UINT32_MAX);
    qn_buf_init(&second, UINT32_MAX);
    fuzz_require(qn_announce_write(mux, &first, NULL) == QUERN_OK);
    fuzz_require(qn_announce_read((struct qn_bytes){first.data, first.size}, &same, NULL) ==
                 QUERN_OK);
    fuzz_require(qn_mux_count(mux) == qn_mux_count(same));
    fuzz_require(qn_announce_write(same, &second, NULL) == QUERN_OK);
    fuzz_require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    qn_buf_finish(&first);
    qn_buf_finish(&second);
    quern_mux_free(mux);
    quern_mux_free(same);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[KINDS])(struct qn_bytes) = {
        [END] = read_end,
        [PROGRESS] = read_progress,
        [ANSWER] = read_answer,
        [ANNOUNCE] = read_announcement,
    };
    if (size > 0) {
        char *copy =
            fuzz_copy(data + 1, size - 1); /* a frame's body has a byte of ours behind it */
        readers[data[0] % KINDS]((struct qn_bytes){copy, size - 1});
        free(copy);
    }
    return 0;
}
