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

/* Operations of lib_operate.c: 0 exchange, 1 enqueue, 2 extend, 3 result, 4 progress, 5 forward,
 * 6 recover, 7 prune, 8 arm, 9 wait, 10 announce, 11 withdraw, 12 drained, 13 queues, 14 tasks,
 * 15 workers, 16 history, 17 facts, 18 act, 19 act all, 20 pause, 21 check, 22 remove. */
struct row {
    const char *name;
    size_t size;
    const char *bytes;
};
#define ROW(name, text)                                                                            \
    {                                                                                              \
        (name), sizeof(text) - 1, (text)                                                           \
    }
static const struct row rows[] = {
    ROW("done", "\x0a\x01\x0c\x00\x00\x02hi\x01\x00\x01\x00\x01x\x00\x00\x04\x02\x03\x04"
                "\x00\x02\x00\x02\x08\x0e\x86\x00\x00\x00\x0b"),
    ROW("ends", "\x01\x1f\x00\x00\x01x\x01\x00\x01\x00\x00\x01\x00\x02\x00\x00\x01\x00\x03\x00\x00"
                "\x00\x00\x08\x00\x04\x03\x04\x05\x86\x00\x0e\x00\x00\x00\x00\x0e\x05\x00\x00\x00"
                "\x15\x01\x0d"),
    ROW("looks", "\x0a\x01\x0c\x00\x00\x01x\x01\x20\x01\x00\x01x\x01\x00\x02\x01\x00\x00\x00\x02"
                 "\x0d\x0e\x80\x00\x00\x00\x0e\xf2\x01x\x00\x01\x0f\x10\x00\x11\x0c\x15\x00\x08"
                 "\x09"),
    ROW("steers", "\x0a\x01\x08\x00\x00\x01x\x01\x20\x01\x00\x01x\x01\x00\x02\x01\x00\x12\x01\x00"
                  "\x00\x12\x02\x00\x01\x13\x01\x02\x00\x01\x00\x14\x00\x00\x16\x00\x00\x14\x01\x00"
                  "\x15\x00\x16\x00\x01"),
    ROW("upkeep", "\x0a\x01\x00\x00\x00\x01x\x01\x20\x01\x00\x01x\x00\x00\x02\x05\x06\x07\x02\x06"
                  "\x08\x09\x0c\x15\x00\x0b")};

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
    struct fuzz_input input = {
        .data = (const uint8_t *)row->bytes, .size = row->size, .record = &record};
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
