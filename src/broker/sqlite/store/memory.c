/* SPDX-License-Identifier: MIT */
/* memory.c - the databases that this process has in its memory, by their URLs.
 *
 * Broker objects that open the same URL must find each other, so there is one list for the whole
 * process, which is empty when nothing is open. SQLite's VFS memdb keeps the pages and shares them
 * between connections. A child of a fork leaves the entries of its parent alone, whose connections
 * it must not use, and makes its own. */
#include "broker/sqlite/store/memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/text/str.h"

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct qn_memory *list;    /* guarded by list_mutex, as the next one */
static unsigned long long number; /* of the latest database */

bool qn_memory_is_url(const char *url)
{
    return qn_str_starts_with(url, QN_MEMORY_SCHEME);
}

static quern_status check_url(const char *url, quern_error *err)
{
    const char *name = url + strlen(QN_MEMORY_SCHEME);
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (name[size] == '\0' && size <= QN_MEMORY_NAME_MAX) {
        return QUERN_OK;
    }
    return qn_error_set(err, QUERN_E_INVALID,
                        "broker memory: the name behind it has up to %d letters, digits, \".\", "
                        "\"_\" and \"-\", nothing else (a file of such a name is written ./NAME)",
                        QN_MEMORY_NAME_MAX);
}

/* With the lock of the list held. */
static struct qn_memory *find_memory(const char *url)
{
    pid_t pid = getpid();
    struct qn_memory *memory = list;
    while (memory != NULL && (memory->opener_pid != pid || strcmp(memory->url, url) != 0)) {
        memory = memory->next;
    }
    return memory;
}

/* With the lock of the list held. */
static quern_status make(const char *url, struct qn_memory **ret_memory, quern_error *err)
{
    struct qn_memory *memory = qn_alloc_zero(1, sizeof *memory);
    if (memory == NULL) {
        return qn_error_nomem(err);
    }
    memory->opener_pid = getpid();
    (void)snprintf(memory->url, sizeof memory->url, "%s", url);
    (void)snprintf(memory->vfs_name, sizeof memory->vfs_name, "/quern-%lld-%llu",
                   (long long)memory->opener_pid, ++number);
    quern_status status = qn_conn_open_memory(&memory->keeper, memory->vfs_name, url, 0, err);
    if (status != QUERN_OK) {
        qn_free(memory);
        return status;
    }
    qn_writer_lock_init(&memory->lock);
    pthread_mutex_init(&memory->sockets_mutex, NULL);
    qn_list_init(&memory->sockets);
    memory->next = list;
    list = memory;
    *ret_memory = memory;
    return QUERN_OK;
}

quern_status qn_memory_open(const char *url, struct qn_memory **ret_memory, quern_error *err)
{
    quern_status status = check_url(url, err);
    if (status != QUERN_OK) {
        return status;
    }
    pthread_mutex_lock(&list_mutex);
    struct qn_memory *memory = find_memory(url);
    if (memory == NULL) {
        status = make(url, &memory, err);
    }
    if (status == QUERN_OK) {
        memory->open_count++;
        *ret_memory = memory;
    }
    pthread_mutex_unlock(&list_mutex);
    return status;
}

void qn_memory_close(struct qn_memory *memory)
{
    if (memory == NULL) {
        return;
    }
    pthread_mutex_lock(&list_mutex);
    QN_ASSERT(memory->open_count > 0);
    memory->open_count--;
    bool is_last = memory->open_count == 0;
    struct qn_memory **link = &list;
    while (is_last && *link != memory) {
        link = &(*link)->next;
    }
    if (is_last) {
        *link = memory->next;
    }
    pthread_mutex_unlock(&list_mutex);
    if (is_last) {
        QN_ASSERT(qn_list_empty(&memory->sockets));
        qn_conn_close(&memory->keeper);
        qn_writer_lock_finish(&memory->lock);
        pthread_mutex_destroy(&memory->sockets_mutex);
        qn_free(memory);
    }
}
