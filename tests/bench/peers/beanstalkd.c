/* SPDX-License-Identifier: MIT */
/* The driver of beanstalkd; see README.md for its commands. It has a text protocol, and takes as
 * many commands in one write as one likes: that is its fastest way, and used for bulk and work. */
#include "driver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEPTH 128 /* commands in flight */
#define BODY_FORMAT "put 0 0 60 %d\r\n%s\r\n"

static FILE *from;
static int to_fd;

static void open_connection(void)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(driver_environment("BENCH_HOST"), driver_environment("BENCH_PORT"), &hints,
                    &found) != 0) {
        driver_die("no such host");
    }
    to_fd = socket(found->ai_family, SOCK_STREAM, 0);
    int on = 1;
    if (connect(to_fd, found->ai_addr, found->ai_addrlen) != 0 ||
        setsockopt(to_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        driver_die("beanstalkd: cannot connect");
    }
    freeaddrinfo(found);
    from = fdopen(to_fd, "r");
}

static void send_text(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t sent = write(to_fd, text, size);
        if (sent <= 0) {
            driver_die("beanstalkd: cannot write");
        }
        text += sent;
        size -= (size_t)sent;
    }
}

/* Reads a line and dies unless it begins with `expected`. */
static void expect_line(const char *expected, char line[256])
{
    if (fgets(line, 256, from) == NULL || strncmp(line, expected, strlen(expected)) != 0) {
        driver_die("beanstalkd: an unexpected answer");
    }
}

static void put(size_t count, size_t depth)
{
    char body[PAYLOAD_SIZE + 1];
    char command[DEPTH * (PAYLOAD_SIZE + 32)];
    char line[256];
    memset(body, 'x', PAYLOAD_SIZE);
    body[PAYLOAD_SIZE] = '\0';
    int64_t begin_ns = driver_now_ns();
    for (size_t left = count; left > 0;) {
        size_t batch = left < depth ? left : depth;
        size_t size = 0;
        for (size_t i = 0; i < batch; i++) {
            size += (size_t)snprintf(command + size, sizeof command - size, BODY_FORMAT,
                                     PAYLOAD_SIZE, body);
        }
        send_text(command, size);
        for (size_t i = 0; i < batch; i++) {
            expect_line("INSERTED", line);
        }
        left -= batch;
    }
    driver_print_seconds(begin_ns);
}

/* Reserves and deletes `depth` at a time: the deletions go out with the next reservations. */
static void work(size_t count, size_t depth)
{
    char command[DEPTH * 64];
    char line[256];
    char body[PAYLOAD_SIZE + 3];
    unsigned long long ids[DEPTH];
    size_t reserved = 0;
    int64_t begin_ns = driver_now_ns();
    for (size_t done = 0; done < count;) {
        size_t left = count - done - reserved;
        size_t batch = left < depth ? left : depth;
        size_t size = 0;
        for (size_t i = 0; i < reserved; i++) {
            size +=
                (size_t)snprintf(command + size, sizeof command - size, "delete %llu\r\n", ids[i]);
        }
        for (size_t i = 0; i < batch; i++) {
            size += (size_t)snprintf(command + size, sizeof command - size, "reserve\r\n");
        }
        send_text(command, size);
        for (size_t i = 0; i < reserved; i++) {
            expect_line("DELETED", line);
        }
        done += reserved;
        for (size_t i = 0; i < batch; i++) {
            expect_line("RESERVED", line);
            ids[i] = strtoull(line + strlen("RESERVED "), NULL, 10);
            if (fread(body, 1, PAYLOAD_SIZE + 2, from) != PAYLOAD_SIZE + 2) {
                driver_die("beanstalkd: the end of the connection");
            }
        }
        reserved = batch;
    }
    driver_print_seconds(begin_ns);
}

static void echo(void)
{
    char line[256];
    char body[PAYLOAD_SIZE + 3];
    puts("ready");
    (void)fflush(stdout);
    for (;;) {
        send_text("reserve\r\n", strlen("reserve\r\n"));
        expect_line("RESERVED", line);
        if (fread(body, 1, PAYLOAD_SIZE + 2, from) != PAYLOAD_SIZE + 2) {
            driver_die("beanstalkd: the end of the connection");
        }
        driver_echo(body, PAYLOAD_SIZE);
        char command[64];
        int size = snprintf(command, sizeof command, "delete %llu\r\n",
                            strtoull(line + strlen("RESERVED "), NULL, 10));
        send_text(command, (size_t)size);
        expect_line("DELETED", line);
    }
}

static void forward_lines(void)
{
    char line[256];
    char body[PAYLOAD_SIZE + 1];
    char command[PAYLOAD_SIZE + 64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        driver_stamp(body);
        int size = snprintf(command, sizeof command, BODY_FORMAT, PAYLOAD_SIZE, body);
        send_text(command, (size_t)size);
        expect_line("INSERTED", line);
    }
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (strcmp(command, "version") == 0) {
        FILE *about = popen("beanstalkd -v", "r");
        char line[64] = "";
        if (about == NULL || fgets(line, sizeof line, about) == NULL || pclose(about) != 0) {
            driver_die("no beanstalkd");
        }
        line[strcspn(line, "\n")] = '\0';
        printf("%s with binlog (fsync each 50 ms), %d commands in flight\n", line, DEPTH);
        return 0;
    }
    open_connection();
    if (strcmp(command, "single") == 0) {
        put(count, 1);
    } else if (strcmp(command, "bulk") == 0) {
        put(count, DEPTH);
    } else if (strcmp(command, "work") == 0) {
        work(count, DEPTH);
    } else if (strcmp(command, "echo") == 0) {
        echo();
    } else if (strcmp(command, "send") == 0) {
        forward_lines();
    }
    return 0;
}
