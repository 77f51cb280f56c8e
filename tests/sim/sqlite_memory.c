/* SPDX-License-Identifier: MIT */
/* sqlite_memory.c - an allocator for SQLite that AddressSanitizer does not see.
 *
 * SQLite is not instrumented, and allocates so often that under ASan half of a simulation was spent
 * there. Each block is a power of two and keeps its size in front; freed blocks wait in a
 * list for the next one of their size. Nothing goes back to the system. One thread. */
#include "sqlite_memory.h"

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"

enum { HEAD = 16, ORDER_MIN = 5, ORDERS = 31, CHUNK = 1 << 22 };

struct block {
    int order;
    struct block *next; /* while it is free */
};

static struct block *free_blocks[ORDERS];
static char *chunk;
static size_t chunk_left;

static int order_of(int size)
{
    int order = ORDER_MIN;
    while ((INT64_C(1) << order) < (int64_t)size + HEAD) {
        order++;
    }
    QN_ASSERT(order < ORDERS);
    return order;
}

static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static struct block *make_block(size_t size)
{
    if (size > CHUNK / 4) {
        return map(size);
    }
    if (chunk_left < size) {
        chunk = map(CHUNK);
        chunk_left = chunk == NULL ? 0 : CHUNK;
    }
    if (chunk_left < size) {
        return NULL;
    }
    void *block = chunk;
    chunk += size;
    chunk_left -= size;
    return block;
}

static struct block *block_of(void *memory)
{
    return (struct block *)(void *)((char *)memory - HEAD);
}

static void *take(int size)
{
    int order = order_of(size);
    struct block *block = free_blocks[order];
    if (block != NULL) {
        free_blocks[order] = block->next;
    } else {
        block = make_block((size_t)1 << order);
    }
    if (block == NULL) {
        return NULL;
    }
    block->order = order;
    return (char *)block + HEAD;
}

static void give_back(void *memory)
{
    if (memory != NULL) {
        struct block *block = block_of(memory);
        block->next = free_blocks[block->order];
        free_blocks[block->order] = block;
    }
}

static int size_of(void *memory)
{
    return memory == NULL ? 0 : (1 << block_of(memory)->order) - HEAD;
}

static void *change(void *memory, int size)
{
    int before = size_of(memory);
    if (size <= before) {
        return memory;
    }
    void *larger = take(size);
    if (larger != NULL) {
        memcpy(larger, memory, (size_t)before);
        give_back(memory);
    }
    return larger;
}

static int round_up(int size)
{
    return (1 << order_of(size)) - HEAD;
}

static int begin(void *user)
{
    (void)user;
    return SQLITE_OK;
}

static void end(void *user)
{
    (void)user;
}

void sim_sqlite_memory_use(void)
{
    static sqlite3_mem_methods methods = {.xMalloc = take,
                                          .xFree = give_back,
                                          .xRealloc = change,
                                          .xSize = size_of,
                                          .xRoundup = round_up,
                                          .xInit = begin,
                                          .xShutdown = end};
    int code = sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    QN_ASSERT(code == SQLITE_OK);
    code = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    QN_ASSERT(code == SQLITE_OK);
}
