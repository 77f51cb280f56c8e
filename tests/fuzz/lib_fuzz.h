/* SPDX-License-Identifier: MIT */
/* lib_fuzz.h - what fuzz targets share: an input that is eaten byte by byte, and a broker that does
 * what the input says. */
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

/* What is left of the input; behind its end come zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
    struct qn_buf *record; /* not NULL: what is eaten is appended, to make a corpus */
};
uint8_t fuzz_byte(struct fuzz_input *input);
uint64_t fuzz_word(struct fuzz_input *input); /* eight bytes */
/* Small ones, and such as break sums. */
int64_t fuzz_number(struct fuzz_input *input);
/* A text of at most `size` - 1 bytes, with its NUL; its length comes first. */
size_t fuzz_text(struct fuzz_input *input, char *out, size_t size);
/* The input as a text of its own, with a NUL behind; freed by the caller. */
char *fuzz_copy(const uint8_t *data, size_t size);

/* A directory, in memory where that can be, that is gone at the end of the program. */
const char *fuzz_dir(void);

/* Lets the broker do `count` operations, which the input chooses with all they are given. */
void fuzz_operate(struct qn_broker *broker, struct fuzz_input *input, size_t count);
#define FUZZ_OPERATIONS 23

#endif
