/* SPDX-License-Identifier: MIT */
/* fuzz_peer.c - a Redis server that answers anything, to every operation of the broker.
 *
 * The input chooses in turns the broker's operation (lib_operate.c) and the answer. Most answers
 * are well formed but of any shape and with any numbers, so that the code behind the decoder is
 * reached; some are any bytes, an end of the connection, or silence. When the input is used up,
 * connections end.
 *
 * An answer is one byte, followed by its operands:
 *
 *   00-3f  that number               80  nil                      88  the empty list
 *   40-5f  a text of 0-31 bytes      81  a nil list               89  the end of the connection
 *   60-7f  a list of 0-31 answers    82  a number of eight bytes  8a  silence
 *                                    83  the same as a text       8b  a text of 0-65535 bytes
 *                                    84  an error                 8c  a list of 0-255 answers
 *                                    85  any bytes                8d  a status, +OK
 *                                    86  one of the words below   8e  such a number (fuzz_number)
 *                                    87  an error of the server   8f  the same as a text
 *   90-ff  as 10-7f */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib_fuzz.h"
#include "lib_peer.h"

#define DEPTH_MAX 5
#define OPERATIONS_MAX 16
#define CONNECTIONS_MAX 8

static struct fuzz_input input;
static bool polite; /* greetings are answered as they should */

static const char greeting[] =
    "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n"
    "$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
    "$7\r\nmodules\r\n*0\r\n";

static const char *const words[] = {
    "pending", "active", "scheduled", "retry",   "archived", "completed", "aggregating", "default",
    "q",       "id0",    "id1",       "invalid", "msg",      "state",     "0",           "1"};
static const char *const errors[] = {
    "NOSCRIPT No matching script.",
    "LOADING Redis is loading the dataset in memory",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY You can't write against a read only replica.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR Error running script (call to f_1): @user_script:3: user_script:3: x",
    "MISCONF Redis is configured to save RDB snapshots",
    "BUSY Redis is busy running a script.",
    "MOVED 1 127.0.0.1:1",
    "CLUSTERDOWN Hash slot not served"};

static void send_text(int peer_fd, const char *text, size_t size)
{
    char head[32];
    int count = snprintf(head, sizeof head, "$%zu\r\n", size);
    peer_write(peer_fd, head, (size_t)count);
    peer_write(peer_fd, text, size);
    peer_write(peer_fd, "\r\n", 2);
}

static void send_number(int peer_fd, int64_t number, bool as_text)
{
    char text[32];
    int size = snprintf(text, sizeof text, as_text ? "%" PRId64 : ":%" PRId64 "\r\n", number);
    if (as_text) {
        send_text(peer_fd, text, (size_t)size);
    } else {
        peer_write(peer_fd, text, (size_t)size);
    }
}

static void send_bytes(int peer_fd, size_t size, bool as_text)
{
    static char bytes[65536];
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)fuzz_byte(&input);
    }
    if (as_text) {
        send_text(peer_fd, bytes, size);
    } else {
        peer_write(peer_fd, bytes, size);
    }
}

static void send_error(int peer_fd, const char *text)
{
    peer_write(peer_fd, "-", 1);
    peer_write(peer_fd, text, strcspn(text, "\r\n"));
    peer_write(peer_fd, "\r\n", 2);
}

static void send_value(int peer_fd, int depth);

static void send_list(int peer_fd, size_t count, int depth)
{
    char head[32];
    int size = snprintf(head, sizeof head, "*%zu\r\n", count);
    peer_write(peer_fd, head, (size_t)size);
    for (size_t i = 0; i < count; i++) {
        send_value(peer_fd, depth + 1);
    }
}

static void send_special(int peer_fd, uint8_t byte, int depth)
{
    char text[256];
    switch (byte) {
    case 0x81:
        peer_write(peer_fd, "*-1\r\n", 5);
        break;
    case 0x82:
    case 0x83:
        send_number(peer_fd, (int64_t)fuzz_word(&input), byte == 0x83);
        break;
    case 0x84:
        (void)fuzz_text(&input, text, sizeof text);
        send_error(peer_fd, text);
        break;
    case 0x85:
        send_bytes(peer_fd, fuzz_byte(&input), false);
        break;
    case 0x86:
        (void)snprintf(text, sizeof text, "%s", words[fuzz_byte(&input) % 16]);
        send_text(peer_fd, text, strlen(text));
        break;
    case 0x87:
        send_error(peer_fd, errors[fuzz_byte(&input) % (sizeof errors / sizeof errors[0])]);
        break;
    case 0x88:
        peer_write(peer_fd, "*0\r\n", 4);
        break;
    case 0x89:
        peer_hang_up(peer_fd);
        break;
    case 0x8a:
        break;
    case 0x8b: {
        size_t size = fuzz_byte(&input);
        send_bytes(peer_fd, size << 8 | fuzz_byte(&input), true);
        break;
    }
    case 0x8c:
        send_list(peer_fd, depth < DEPTH_MAX ? fuzz_byte(&input) : 0, depth);
        break;
    case 0x8d:
        peer_write(peer_fd, "+OK\r\n", 5);
        break;
    case 0x8e:
    case 0x8f:
        send_number(peer_fd, fuzz_number(&input), byte == 0x8f);
        break;
    default:
        peer_write(peer_fd, "$-1\r\n", 5);
    }
}

static void send_value(int peer_fd, int depth)
{
    uint8_t byte = fuzz_byte(&input);
    if (byte >= 0x80 && byte < 0x90) {
        send_special(peer_fd, byte, depth);
        return;
    }
    byte &= 0x7f;
    if (byte < 0x40) {
        send_number(peer_fd, byte, false);
    } else if (byte < 0x60) {
        send_bytes(peer_fd, byte & 31, true);
    } else {
        send_list(peer_fd, depth < DEPTH_MAX ? byte & 31 : 0, depth);
    }
}

void peer_answer(int peer_fd, const char *name, size_t name_size, const char *command,
                 size_t command_size)
{
    (void)command;
    (void)command_size;
    if (polite && name_size == 5 && memcmp(name, "HELLO", 5) == 0) {
        peer_write(peer_fd, greeting, sizeof greeting - 1);
    } else if (input.size == 0) {
        peer_hang_up(peer_fd);
    } else {
        send_value(peer_fd, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qn_broker *broker = NULL;
    quern_error err = {0};
    const struct qn_broker_options options = {.connect_timeout_ms = 50, .command_timeout_ms = 50};
    input = (struct fuzz_input){.data = data, .size = size};
    polite = fuzz_byte(&input) % 4 != 0;
    peer_accept(CONNECTIONS_MAX);
    if (qn_broker_open("redis-socket:///peer", &options, &broker, &err) == QUERN_OK) {
        fuzz_operate(broker, &input, OPERATIONS_MAX);
        qn_broker_close(broker);
    }
    peer_finish();
    return 0;
}
