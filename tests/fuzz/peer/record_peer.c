/* SPDX-License-Identifier: MIT */
/* record_peer.c - writes the corpus of fuzz_peer: runs a few series of operations on a real server,
 * and records choices and answers in the code of fuzz_peer.c.
 *
 * usage: record_peer SOCKET DIRECTORY - the server is emptied. Called by tests/fuzz/make_corpus. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib_fuzz.h"
#include "lib_peer.h"

#define RECORD_SIZE_MAX 65536

#define FDS_MAX 1024

static struct qn_buf record;
static const char *socket_path;
static redisContext *servers[FDS_MAX]; /* by the peer's descriptor */

/* A new one for each greeting: the subscriptions of one connection must not affect the next. */
static redisContext *call_up(int peer_fd, bool again)
{
    fuzz_require(peer_fd < FDS_MAX);
    redisContext **server = &servers[peer_fd];
    if (again && *server != NULL) {
        redisFree(*server);
        *server = NULL;
    }
    if (*server == NULL) {
        *server = redisConnectUnix(socket_path);
        fuzz_require(*server != NULL && (*server)->err == 0);
    }
    return *server;
}

#define RECORDED_MAX 80

/* Operations of lib_operate.c with their operands. */
struct row {
    const char *name;
    uint8_t bytes[RECORDED_MAX];
    size_t size;
};
#define ROW(name, ...)                                                                             \
    {                                                                                              \
        (name), {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})                                    \
    }
static const struct row rows[] = {
    ROW("done", FUZZ_HEARTBEAT, FUZZ_ENQUEUE, 0x0c, 0, 0, 2, 'h', 'i', FUZZ_ENQUEUE, 0, 1, 0, 1,
        'x', FUZZ_EXCHANGE, 0, 4, FUZZ_EXTEND, FUZZ_WRITE_RESULT, FUZZ_WRITE_PROGRESS,
        FUZZ_EXCHANGE, 2, 0, 2, 8, FUZZ_TASKS, 0x86, 0, 0, 0, FUZZ_DEREGISTER),
    ROW("ends", FUZZ_ENQUEUE, 0x1f, 0, 0, 1, 'x', FUZZ_ENQUEUE, 0, 1, 0, 0, FUZZ_ENQUEUE, 0, 2, 0,
        0, FUZZ_ENQUEUE, 0, 3, 0, 0, FUZZ_EXCHANGE, 0, 8, FUZZ_EXCHANGE, 4, 3, 4, 5, 0x86, 0,
        FUZZ_TASKS, 0, 0, 0, 0, FUZZ_TASKS, 5, 0, 0, 0, FUZZ_DOCTOR, 1, FUZZ_QUEUES),
    ROW("aside", FUZZ_ENQUEUE, 0, 0, 0, 0, FUZZ_ENQUEUE, 0, 1, 0, 0, FUZZ_EXCHANGE, 0, 8,
        FUZZ_EXCHANGE, 2, 8, 0x89, 0, FUZZ_TASKS, 0, 0, 0, 0),
    ROW("looks", FUZZ_HEARTBEAT, FUZZ_ENQUEUE, 0x0c, 0, 0, 1, 'x', FUZZ_ENQUEUE, 0x20, 1, 0, 1, 'x',
        FUZZ_ENQUEUE, 0, 2, 1, 0, FUZZ_EXCHANGE, 0, 2, FUZZ_QUEUES, FUZZ_TASKS, 0x80, 0, 0, 0,
        FUZZ_TASKS, 0xf2, 1, 'x', 0, 1, FUZZ_WORKERS, FUZZ_HISTORY, 0, FUZZ_SERVER_INFO,
        FUZZ_DRAINED, FUZZ_DOCTOR, 0, FUZZ_ARM, FUZZ_WAIT),
    ROW("finds", FUZZ_ENQUEUE, 0x0c, 0, 0, 1, 'x', FUZZ_FIND_QUEUE, 0, FUZZ_FIND_QUEUE, 1,
        FUZZ_LOCK_HOLDER, FUZZ_MATCH_ID, 0, FUZZ_WATCH, 0, 0, FUZZ_AWAIT, FUZZ_WAKE, FUZZ_INTERRUPT,
        FUZZ_AWAIT, FUZZ_IS_GONE, FUZZ_BACKUP),
    ROW("steers", FUZZ_HEARTBEAT, FUZZ_ENQUEUE, 8, 0, 0, 1, 'x', FUZZ_ENQUEUE, 0x20, 1, 0, 1, 'x',
        FUZZ_ENQUEUE, 0, 2, 1, 0, FUZZ_OPERATE, 1, 0, 0, FUZZ_OPERATE, 2, 0, 1, FUZZ_OPERATE_ALL, 1,
        2, 0, 1, 0, FUZZ_PAUSE, 0, 0, FUZZ_REMOVE_QUEUE, 0, 0, FUZZ_PAUSE, 1, 0, FUZZ_DOCTOR, 0,
        FUZZ_REMOVE_QUEUE, 0, 1),
    ROW("upkeep", FUZZ_HEARTBEAT, FUZZ_ENQUEUE, 0, 0, 0, 1, 'x', FUZZ_ENQUEUE, 0x20, 1, 0, 1, 'x',
        FUZZ_EXCHANGE, 0, 2, FUZZ_FORWARD, FUZZ_RECOVER, FUZZ_PRUNE, FUZZ_EXTEND, FUZZ_RECOVER,
        FUZZ_ARM, FUZZ_WAIT, FUZZ_DRAINED, FUZZ_DOCTOR, 0, FUZZ_DEREGISTER),
};

static void note(const void *data, size_t size)
{
    fuzz_require(qn_buf_append(&record, data, size) == QUERN_OK);
}

static void note_byte(unsigned byte)
{
    uint8_t one = (uint8_t)byte;
    note(&one, 1);
}

static void encode_text(int peer_fd, const redisReply *reply)
{
    char head[32];
    size_t size = (size_t)reply->len;
    int count = snprintf(head, sizeof head, "$%zu\r\n", size);
    peer_write(peer_fd, head, (size_t)count);
    peer_write(peer_fd, reply->str, size);
    peer_write(peer_fd, "\r\n", 2);
    if (size < 32) {
        note_byte(0x40 + (unsigned)size);
    } else {
        note_byte(0x8b);
        note_byte((unsigned)size >> 8);
        note_byte((unsigned)size & 255);
    }
    note(reply->str, size);
}

static void encode_number(int peer_fd, long long number)
{
    char text[32];
    int size = snprintf(text, sizeof text, ":%lld\r\n", number);
    peer_write(peer_fd, text, (size_t)size);
    if (number >= 0 && number < 64) {
        note_byte((unsigned)number);
        return;
    }
    note_byte(0x82);
    for (int shift = 56; shift >= 0; shift -= 8) {
        note_byte((unsigned)((unsigned long long)number >> shift & 255));
    }
}

static void encode(int peer_fd, const redisReply *reply)
{
    char head[512];
    int size = 0;
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        encode_number(peer_fd, reply->integer);
        break;
    case REDIS_REPLY_STRING:
        encode_text(peer_fd, reply);
        break;
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        size = snprintf(head, sizeof head, "%c%s\r\n", reply->type == REDIS_REPLY_ERROR ? '-' : '+',
                        reply->str);
        peer_write(peer_fd, head, (size_t)size);
        note_byte(0x85);
        note_byte((unsigned)size);
        note(head, (size_t)(size & 255));
        break;
    case REDIS_REPLY_ARRAY:
        size = snprintf(head, sizeof head, "*%zu\r\n", reply->elements);
        peer_write(peer_fd, head, (size_t)size);
        note_byte(reply->elements < 32 ? 0x60 + (unsigned)reply->elements : 0x8c);
        if (reply->elements >= 32) {
            note_byte((unsigned)reply->elements);
        }
        for (size_t i = 0; i < reply->elements; i++) {
            encode(peer_fd, reply->element[i]);
        }
        break;
    default:
        peer_write(peer_fd, "$-1\r\n", 5);
        note_byte(0x80);
    }
}

/* Asks the real server. Its greeting is no part of the record. */
void peer_answer(int peer_fd, const char *name, size_t name_size, const char *command,
                 size_t command_size)
{
    redisReply *reply = NULL;
    int done = 0;
    bool is_greeting = name_size == 5 && memcmp(name, "HELLO", 5) == 0;
    redisContext *server = call_up(peer_fd, is_greeting);
    fuzz_require(redisAppendFormattedCommand(server, command, command_size) == REDIS_OK);
    while (done == 0) {
        fuzz_require(redisBufferWrite(server, &done) == REDIS_OK);
    }
    fuzz_require(redisGetReply(server, (void **)&reply) == REDIS_OK);
    size_t before = record.size;
    encode(peer_fd, reply);
    if (is_greeting) {
        record.size = before;
    }
    freeReplyObject(reply);
}

static void record_row(const struct row *row, const char *dir)
{
    char path[256];
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    struct fuzz_input input = {.data = row->bytes, .size = row->size, .record = &record};
    freeReplyObject(redisCommand(call_up(0, true), "FLUSHALL"));
    qn_buf_init(&record, RECORD_SIZE_MAX);
    note_byte(1); /* polite */
    peer_accept(100);
    if (qn_broker_open("redis-socket:///peer", NULL, &broker, &err) != QUERN_OK) {
        (void)fprintf(stderr, "%s: %s\n", row->name, err.text);
        exit(1);
    }
    fuzz_operate(broker, &input, 100);
    qn_broker_close(broker);
    peer_finish();
    (void)snprintf(path, sizeof path, "%s/%s", dir, row->name);
    FILE *out = fopen(path, "we");
    fuzz_require(out != NULL && fwrite(record.data, 1, record.size, out) == record.size);
    fuzz_require(fclose(out) == 0);
    qn_buf_finish(&record);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: record_peer SOCKET DIRECTORY\n");
        return 2;
    }
    socket_path = argv[1]; /* hiredis is a library of its own, whose connect() is the real one */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        record_row(&rows[i], argv[2]);
    }
    for (size_t i = 0; i < FDS_MAX; i++) {
        if (servers[i] != NULL) {
            redisFree(servers[i]);
        }
    }
    return 0;
}
