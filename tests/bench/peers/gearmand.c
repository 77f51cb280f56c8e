/* SPDX-License-Identifier: MIT */
/* The driver of gearmand; see README.md for its commands. Four threads were best for bulk and work;
 * libgearman sends one task at a time. */
#include "driver.h"

#include <libgearman/gearman.h>
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4

static int64_t begin_ns;
static atomic_size_t left;

static void check(gearman_return_t code, const char *what)
{
    if (code != GEARMAN_SUCCESS) {
        driver_die(what);
    }
}

static in_port_t port(void)
{
    return (in_port_t)strtoul(driver_environment("BENCH_PORT"), NULL, 10);
}

static gearman_client_st *open_client(void)
{
    gearman_client_st *client = gearman_client_create(NULL);
    check(gearman_client_add_server(client, driver_environment("BENCH_HOST"), port()), "no server");
    return client;
}

static void put(gearman_client_st *client, const char *body)
{
    gearman_job_handle_t handle;
    check(gearman_client_do_background(client, "bench", NULL, body, PAYLOAD_SIZE, handle),
          "gearmand: cannot enqueue");
}

static void *put_share(void *argument)
{
    const size_t *count = argument;
    gearman_client_st *client = open_client();
    char body[PAYLOAD_SIZE];
    memset(body, 'x', sizeof body);
    for (size_t i = 0; i < *count; i++) {
        put(client, body);
    }
    gearman_client_free(client);
    return NULL;
}

static void enqueue(size_t count, size_t thread_count)
{
    pthread_t threads[THREADS];
    size_t share = count / thread_count;
    begin_ns = driver_now_ns();
    for (size_t i = 0; i < thread_count; i++) {
        (void)pthread_create(&threads[i], NULL, put_share, &share);
    }
    for (size_t i = 0; i < thread_count; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    driver_print_seconds(begin_ns);
}

static gearman_return_t count_down(gearman_job_st *job, void *context)
{
    (void)job;
    (void)context;
    if (atomic_fetch_sub(&left, 1) == 1) {
        driver_print_seconds(begin_ns);
        exit(0);
    }
    return GEARMAN_SUCCESS;
}

static gearman_return_t echo_back(gearman_job_st *job, void *context)
{
    (void)context;
    driver_echo(gearman_job_workload(job), gearman_job_workload_size(job));
    return GEARMAN_SUCCESS;
}

static void *work(void *argument)
{
    gearman_worker_st *worker = gearman_worker_create(NULL);
    check(gearman_worker_add_server(worker, driver_environment("BENCH_HOST"), port()), "no server");
    gearman_function_t function =
        gearman_function_create(argument == NULL ? count_down : echo_back);
    check(gearman_worker_define_function(worker, "bench", strlen("bench"), function, 0, NULL),
          "no function");
    if (argument != NULL) {
        puts("ready");
        (void)fflush(stdout);
    }
    while (gearman_worker_work(worker) == GEARMAN_SUCCESS) {
    }
    driver_die("gearmand: the worker ended");
    return NULL;
}

static void forward_lines(void)
{
    gearman_client_st *client = open_client();
    char body[PAYLOAD_SIZE + 1];
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        driver_stamp(body);
        put(client, body);
    }
    gearman_client_free(client);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (strcmp(command, "version") == 0) {
        printf("gearmand, libgearman %s, in memory, %d threads\n", gearman_version(), THREADS);
    } else if (strcmp(command, "single") == 0) {
        enqueue(count, 1);
    } else if (strcmp(command, "bulk") == 0) {
        enqueue(count, THREADS);
    } else if (strcmp(command, "work") == 0) {
        pthread_t threads[THREADS];
        atomic_store(&left, count);
        begin_ns = driver_now_ns();
        for (size_t i = 0; i < THREADS; i++) {
            (void)pthread_create(&threads[i], NULL, work, NULL);
        }
        (void)pthread_join(threads[0], NULL);
    } else if (strcmp(command, "echo") == 0) {
        (void)work(&count);
    } else if (strcmp(command, "send") == 0) {
        forward_lines();
    }
    return 0;
}
