/* SPDX-License-Identifier: MIT */
/* fuzz_datagram.c - any datagrams on the two sockets that wake a worker on an SQLite file and carry
 * cancellations: it wakes, or it cancels the named task, and it never hangs. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib_fuzz.h"

#define WAITS_MAX 8

static struct qn_broker *broker;
static char paths[2][sizeof((struct sockaddr_un *)0)->sun_path]; /* wake, control */

static void close_broker(void)
{
    qn_broker_close(broker);
}

static void find_sockets(const char *dir)
{
    DIR *list = opendir(dir);
    fuzz_require(list != NULL);
    for (struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        size_t size = strlen(entry->d_name);
        const char *end = size > 2 ? entry->d_name + size - 2 : "";
        int kind = strcmp(end, ".w") == 0 ? 0 : strcmp(end, ".c") == 0 ? 1 : -1;
        if (kind >= 0) {
            (void)snprintf(paths[kind], sizeof paths[kind], "%.40s/%.60s", dir, entry->d_name);
        }
    }
    (void)closedir(list);
    fuzz_require(paths[0][0] != '\0' && paths[1][0] != '\0');
}

static void arm(void)
{
    static const char *const queues[] = {"default"};
    quern_error err = {0};
    bool work = false;
    int64_t next = 0;
    fuzz_require(qn_broker_arm(broker, (struct qn_names){queues, 1}, &work, &next, &err) ==
                 QUERN_OK);
}

static void make_broker(void)
{
    char path[96];
    quern_error err = {0};
    const struct qn_broker_options options = {.create = true};
    (void)snprintf(path, sizeof path, "%s/q.db", fuzz_dir());
    fuzz_require(qn_broker_open(path, &options, &broker, &err) == QUERN_OK);
    (void)atexit(close_broker);
    arm();
    (void)snprintf(path, sizeof path, "%s/q.db-quern", fuzz_dir());
    find_sockets(path);
}

static void send_one(int fd, struct fuzz_input *input)
{
    static char bytes[2048];
    uint8_t head = fuzz_byte(input);
    size_t size = (size_t)(head & 0x7f) << 4 | (fuzz_byte(input) & 15);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)fuzz_byte(input);
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, paths[head >> 7], sizeof address.sun_path);
    (void)sendto(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (const struct sockaddr *)(const void *)&address, sizeof address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {.data = data, .size = size};
    quern_error err = {0};
    if (broker == NULL) {
        make_broker();
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    fuzz_require(fd >= 0);
    arm();
    while (input.size > 0) {
        send_one(fd, &input);
    }
    (void)close(fd);
    for (int i = 0; i < WAITS_MAX; i++) {
        struct qn_wakeup wakeup = {0};
        fuzz_require(qn_broker_wait(broker, 0, &wakeup, &err) == QUERN_OK);
        fuzz_require(memchr(wakeup.queue, '\0', sizeof wakeup.queue) != NULL);
        fuzz_require(memchr(wakeup.id, '\0', sizeof wakeup.id) != NULL);
        fuzz_require(wakeup.cancel <= QN_CANCEL_ARCHIVE);
    }
    return 0;
}
