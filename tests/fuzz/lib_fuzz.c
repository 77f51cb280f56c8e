/* SPDX-License-Identifier: MIT */
/* lib_fuzz.c - consumes the input, and keeps a directory. */
#include "lib_fuzz.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_require(bool condition)
{
    if (!condition) {
        abort();
    }
}

uint8_t fuzz_byte(struct fuzz_input *input)
{
    uint8_t byte = 0;
    if (input->size > 0) {
        byte = input->data[0];
        input->data++;
        input->size--;
    }
    if (input->record != NULL) {
        fuzz_require(qn_buf_append(input->record, &byte, 1) == QUERN_OK);
    }
    return byte;
}

uint64_t fuzz_word(struct fuzz_input *input)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) {
        word = word << 8 | fuzz_byte(input);
    }
    return word;
}

int64_t fuzz_number(struct fuzz_input *input)
{
    static const int64_t edges[] = {INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX - 1,
                                    -1,
                                    INT32_MAX,
                                    INT64_C(1) << 32,
                                    INT64_C(9223372036854775),
                                    INT64_C(1800000000000),
                                    INT64_C(1800000000000000000)};
    uint8_t byte = fuzz_byte(input);
    if (byte < 0x80) {
        return byte;
    }
    size_t edge = byte - 0x80;
    return edge < sizeof edges / sizeof edges[0] ? edges[edge] : (int64_t)fuzz_word(input);
}

size_t fuzz_text(struct fuzz_input *input, char *out, size_t size)
{
    size_t length = fuzz_byte(input);
    length = length < size ? length : size - 1;
    for (size_t i = 0; i < length; i++) {
        out[i] = (char)fuzz_byte(input);
    }
    out[length] = '\0';
    return length;
}

char *fuzz_copy(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    fuzz_require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

static char dir[64];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void remove_dir(void)
{
    (void)nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_dir(void)
{
    if (dir[0] == '\0') {
        const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        (void)snprintf(dir, sizeof dir, "%s/quern-fuzz-XXXXXX", where);
        fuzz_require(mkdtemp(dir) != NULL);
        (void)atexit(remove_dir);
    }
    return dir;
}
