/* SPDX-License-Identifier: MIT */
/* symbols.h - names of functions for a backtrace, also of those that no object exports. */
#ifndef QN_BASE_SYMBOLS_H
#define QN_BASE_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/export.h"

#define QN_SYMBOLS_OBJECTS_MAX 32

struct qn_symbols_object {
    uintptr_t bias; /* address of what its file has at 0 */
    uintptr_t start, end;
    const ElfW(Sym) * table;
    size_t count;
    const char *names; /* ends with a NUL */
    size_t names_size;
};

/* Zero: no names. */
struct qn_symbols {
    struct qn_symbols_object objects[QN_SYMBOLS_OBJECTS_MAX];
    size_t count;
};

/* Reads the symbol tables of the objects that are loaded now, from their files, and keeps them
 * mapped. Objects without one, and files that cannot be read, are left out. */
void qn_symbols_load(struct qn_symbols *ret_symbols);
/* The function that has this address; NULL: unknown. Async-signal-safe. */
QUERN_NODISCARD const char *qn_symbols_find(const struct qn_symbols *symbols, uintptr_t address);

/* Maps the table of an open ELF file into the last three pairs of fields. False: it has none, or
 * is not as it should be; then nothing has changed. */
QUERN_NODISCARD bool qn_symbols_map(int fd, struct qn_symbols_object *object);

#endif
