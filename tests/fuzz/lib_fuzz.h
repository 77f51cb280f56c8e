/* SPDX-License-Identifier: MIT */
/* lib_fuzz.h - common to fuzz targets: an input that is consumed byte by byte, and a broker whose
 * operations the input chooses. */
#ifndef TESTS_FUZZ_LIB_FUZZ_H
#define TESTS_FUZZ_LIB_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "broker/inspect.h"

/* The entry of libFuzzer, which replay.c calls, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Aborts when it does not hold. */
void fuzz_require(bool condition);

/* The rest of the input; after its end come zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
    struct qn_buf *record; /* not NULL: consumed bytes are appended, to make a corpus */
};
uint8_t fuzz_byte(struct fuzz_input *input);
uint64_t fuzz_word(struct fuzz_input *input); /* eight bytes */
/* Small ones, and such as break sums. */
int64_t fuzz_number(struct fuzz_input *input);
/* A text of at most `size` - 1 bytes, with its NUL; its length comes first. */
size_t fuzz_text(struct fuzz_input *input, char *out, size_t size);
/* The input as a text of its own, followed by a NUL; freed by the caller. */
char *fuzz_copy(const uint8_t *data, size_t size);

/* A directory, in memory if possible, that is removed at the end of the program. */
const char *fuzz_dir(void);

/* The operations of a broker, as inputs choose them: make_corpus and record_peer use these names,
 * too. A new one comes last, so that recorded inputs keep their meaning. */
enum fuzz_operation {
    FUZZ_EXCHANGE,
    FUZZ_ENQUEUE,
    FUZZ_EXTEND,
    FUZZ_WRITE_RESULT,
    FUZZ_WRITE_PROGRESS,
    FUZZ_FORWARD,
    FUZZ_RECOVER,
    FUZZ_PRUNE,
    FUZZ_ARM,
    FUZZ_WAIT,
    FUZZ_HEARTBEAT,
    FUZZ_DEREGISTER,
    FUZZ_DRAINED,
    FUZZ_QUEUES,
    FUZZ_TASKS,
    FUZZ_WORKERS,
    FUZZ_HISTORY,
    FUZZ_SERVER_INFO,
    FUZZ_OPERATE,
    FUZZ_OPERATE_ALL,
    FUZZ_PAUSE,
    FUZZ_DOCTOR,
    FUZZ_REMOVE_QUEUE,
    FUZZ_FIND_QUEUE,
    FUZZ_LOCK_HOLDER,
    FUZZ_MATCH_ID,
    FUZZ_WATCH,
    FUZZ_AWAIT,
    FUZZ_WAKE,
    FUZZ_INTERRUPT,
    FUZZ_IS_GONE,
    FUZZ_BACKUP,
    FUZZ_SCHEDULE,
    FUZZ_AGGREGATE,
    FUZZ_RECLAIM_SETS,
    FUZZ_SETTINGS,
    FUZZ_RELOAD,
    FUZZ_SEARCH,
    FUZZ_SEARCH_ACT,
    FUZZ_TRASH,
    FUZZ_STANDING,
    FUZZ_COMMAND,
    FUZZ_OPERATION_COUNT
};
/* Calls `count` of them, which the input chooses with all arguments. */
void fuzz_operate(struct qn_broker *broker, struct fuzz_input *input, size_t count);

#endif
