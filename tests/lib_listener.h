/* SPDX-License-Identifier: MIT */
/* lib_listener.h - a Unix socket that a thread of the test serves until it is stopped. */
#ifndef TESTS_LIB_LISTENER_H
#define TESTS_LIB_LISTENER_H

#include "lib_test.h"

#include <pthread.h>

struct test_listener {
    int listen_fd;
    int stop_fds[2]; /* the first one is readable when the thread must end */
    pthread_t thread;
};

/* Listens at the path, and calls serve(user) on a thread of its own. */
void test_listener_start(struct test_listener *listener, const char *path, void *(*serve)(void *),
                         void *user);
/* Waits until the thread has ended. */
void test_listener_stop(struct test_listener *listener);
/* A socket that is connected to the one at the path, or -1. */
int test_listener_connect(const char *path);
/* Whether all went out. */
bool test_send_all(int fd, const char *data, size_t size);

#endif
