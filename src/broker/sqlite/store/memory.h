/* SPDX-License-Identifier: MIT */
/* memory.h - databases in the memory of this process: "memory:" and "memory:NAME". */
#ifndef QN_BROKER_SQLITE_STORE_MEMORY_H
#define QN_BROKER_SQLITE_STORE_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/memory/list.h"
#include "broker/sqlite/store/conn.h"
#include "broker/sqlite/store/writer_lock.h"

#define QN_MEMORY_SCHEME "memory:"
#define QN_MEMORY_NAME_MAX 64

/* The sending end of a pair of sockets by which a broker object is woken (wake/waiters.c). */
struct qn_memory_socket {
    struct qn_list node;
    char kind; /* 'w', 'c' or 'e', see wake/sockets.h */
    bool lost; /* 'e': a message found no room; guarded as the list */
    int fd;    /* -1: none */
};

/* One database; shared by all broker objects that opened its name. */
struct qn_memory {
    struct qn_memory *next;        /* guarded by the lock of the list, as the next two */
    size_t open_count;             /* broker objects */
    struct qn_conn keeper;         /* does nothing; SQLite frees a database without connections */
    struct qn_writer_lock lock;    /* held by each transaction, reading ones too */
    pthread_mutex_t sockets_mutex; /* guards the next one, and sending to those in it */
    struct qn_list sockets;        /* of struct qn_memory_socket */
    pid_t opener_pid;              /* constant, as the next two */
    char url[sizeof QN_MEMORY_SCHEME + QN_MEMORY_NAME_MAX];
    char vfs_name[64]; /* SQLite's name of it */
};

/* Whether a broker URL names such a database. */
bool qn_memory_is_url(const char *url);
/* The database of this URL, created if this process does not have it open. */
QUERN_NODISCARD quern_status qn_memory_open(const char *url, struct qn_memory **ret_memory,
                                            quern_error *err);
/* The last call frees it, with all that it holds. */
void qn_memory_close(struct qn_memory *memory);

#endif
