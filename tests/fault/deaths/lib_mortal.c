/* SPDX-License-Identifier: MIT */
/* lib_mortal.c - the worker program that dies: its handlers and commands. */
#include "lib_mortal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib_deaths.h"

/* Of workers with a turned clock: no lease may expire because its owner sleeps in real time. */
#define TURNED_LEASE_MS INT64_C(3600000)
#define GOOD_MS 10
#define SECOND_MS 1000
#define NAP_MS 200

static const char *host_name = "host";
static char broken_path[MORTAL_PATH_SIZE];

/* Replaces that of the C library: the host name of the worker. */
int gethostname(char *name, size_t size)
{
    if (strlen(host_name) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    (void)snprintf(name, size, "%s", host_name);
    return 0;
}

static quern_outcome rest(quern_run *run, const quern_task *task, int journal, int ms)
{
    uint64_t number = fault_number(task);
    fault_write(journal, FAULT_START, run, number);
    struct pollfd cancelled = {.fd = quern_run_cancel_fd(run), .events = POLLIN};
    if (poll(&cancelled, 1, ms) != 0) {
        return QUERN_RETRY;
    }
    fault_write(journal, FAULT_END, run, number);
    return QUERN_DONE;
}

static quern_outcome run_good(quern_run *run, const quern_task *task, void *user)
{
    return rest(run, task, *(const int *)user, GOOD_MS);
}

static quern_outcome run_second(quern_run *run, const quern_task *task, void *user)
{
    return rest(run, task, *(const int *)user, SECOND_MS);
}

static quern_outcome run_fatal(quern_run *run, const quern_task *task, void *user)
{
    fault_write(*(const int *)user, FAULT_START, run, fault_number(task));
    (void)kill(getpid(), SIGKILL);
    return QUERN_DONE;
}

static quern_outcome run_nap(quern_run *run, const quern_task *task, void *user)
{
    return rest(run, task, *(const int *)user, NAP_MS);
}

/* It rests until its own end, which is said to come from that of the others. */
static quern_outcome run_killer(quern_run *run, const quern_task *task, void *user)
{
    pid_t guard = getppid();
    pid_t zygote = fault_parent_of(guard);
    pid_t worker = fault_parent_of(zygote);
    bool all = strcmp(task->type, "despot") == 0;
    if (strcmp(task->type, "orphan") != 0) { /* it dies while its worker lives */
        fault_write(*(const int *)user, FAULT_START, run, fault_number(task));
    }
    if (all || strcmp(task->type, "heir") == 0) {
        (void)kill(zygote, SIGKILL);
    }
    if (all || strcmp(task->type, "usurper") == 0) {
        (void)kill(worker, SIGKILL);
    }
    if (all || strcmp(task->type, "orphan") == 0) {
        (void)kill(guard, SIGKILL);
    }
    (void)pause();
    return QUERN_DONE;
}

static quern_outcome run_deploy(quern_run *run, const quern_task *task, void *user)
{
    if (access(broken_path, F_OK) == 0) {
        return run_fatal(run, task, user);
    }
    return rest(run, task, *(const int *)user, 1);
}

/* Commands write no records of their own. Those that may die while their worker lives have none,
 * since a journal allows a start again only after the death of a worker. */
static quern_outcome note_command(quern_run *run, const quern_task *task, quern_handler next,
                                  void *next_user, void *user)
{
    int journal = *(const int *)user;
    bool is_noted = strcmp(task->type, "rest") == 0 || strcmp(task->type, "parent") == 0;
    if (is_noted) {
        fault_write(journal, FAULT_START, run, fault_number(task));
    }
    quern_outcome outcome = next(run, task, next_user);
    if (is_noted && outcome == QUERN_DONE) {
        fault_write(journal, FAULT_END, run, fault_number(task));
    }
    return outcome;
}

void mortal_path_of_broken(const char *journal, const char *host, char out[MORTAL_PATH_SIZE])
{
    (void)snprintf(out, MORTAL_PATH_SIZE, "%s.broken.%s", journal, host);
}

struct quern_clock *mortal_map_clock(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    TEST_REQUIRE(fd >= 0);
    TEST_REQUIRE(ftruncate(fd, sizeof(struct quern_clock)) == 0);
    void *map = mmap(NULL, sizeof(struct quern_clock), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TEST_REQUIRE(map != MAP_FAILED);
    (void)close(fd);
    return map;
}

static const struct {
    const char *type;
    const char *text;
} commands[] = {
    {"command", "kill -9 $$"},
    {"parent", "kill -9 $DEATHS_WORKER"},
    {"rest", "exec sleep 0.2"},
    {"twice", "runs=$DEATHS_JOURNAL.runs.$QUERN_TASK_ID\n"
              "echo >>$runs; [ $(wc -l <$runs) -gt 2 ] || kill -9 $$\n"
              ": >$DEATHS_JOURNAL.held.$QUERN_TASK_ID\n"
              "until [ -e $DEATHS_JOURNAL.go ]; do sleep 0.05; done"},
};

/* What the commands know. */
static void set_environment(const char *journal)
{
    char pid[16];
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    TEST_REQUIRE(setenv("DEATHS_WORKER", pid, 1) == 0);
    TEST_REQUIRE(setenv("DEATHS_JOURNAL", journal, 1) == 0);
}

static quern_mux *make_mux(int *journal)
{
    quern_mux *mux = NULL;
    quern_error err = {0};
    TEST_REQUIRE(quern_mux_new(&mux, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "good", run_good, journal, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "second", run_second, journal, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "fatal", run_fatal, journal, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_handle(mux, "deploy", run_deploy, journal, NULL, &err) == QUERN_OK);
    static const char *const killers[] = {"orphan", "heir", "usurper", "despot"};
    for (size_t i = 0; i < TEST_COUNT(killers); i++) {
        TEST_REQUIRE(quern_mux_handle(mux, killers[i], run_killer, journal, NULL, &err) ==
                     QUERN_OK);
    }
    TEST_REQUIRE(quern_mux_handle(mux, "nap", run_nap, journal, NULL, &err) == QUERN_OK);
    TEST_REQUIRE(quern_mux_use(mux, note_command, journal, &err) == QUERN_OK);
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        TEST_REQUIRE(quern_mux_exec(mux, commands[i].type, commands[i].text, NULL, &err) ==
                     QUERN_OK);
    }
    return mux;
}

struct journal {
    const char *path;
    int fd;
};

/* A child has no descriptor of its parents. */
static void open_in_child(void *user)
{
    struct journal *journal = user;
    journal->fd = fault_journal_open(journal->path);
}

static quern_zygote *start_zygote(quern_mux *mux, struct journal *journal)
{
    const quern_zygote_options options = {.on_child_start = open_in_child, .user = journal};
    quern_zygote *zygote = NULL;
    fault_write_for(getpid());
    TEST_REQUIRE(quern_zygote_start(mux, &options, &zygote, NULL) == QUERN_OK);
    return zygote;
}

/* argv: URL, journal, host, queues, concurrency, clock or "-", "prefork" or "threads". */
int deaths_worker(int argc, char **argv)
{
    TEST_REQUIRE(argc == 7);
    struct journal journal = {.path = argv[1], .fd = fault_journal_open(argv[1])};
    host_name = argv[2];
    mortal_path_of_broken(argv[1], host_name, broken_path);
    set_environment(argv[1]);
    quern_queue queues[2] = {{.name = argv[3]}};
    char *comma = strchr(argv[3], ',');
    if (comma != NULL) {
        *comma = '\0';
        queues[1].name = comma + 1;
    }
    quern_worker_options options = {.queues = queues,
                                    .queue_count = comma == NULL ? 1 : 2,
                                    .concurrency = (uint32_t)strtoul(argv[4], NULL, 10)};
    if (strcmp(argv[5], "-") != 0) {
        options.clock = mortal_map_clock(argv[5], 0);
        options.lease_ms = TURNED_LEASE_MS;
    }
    quern_mux *mux = make_mux(&journal.fd);
    if (strcmp(argv[6], "prefork") == 0) {
        options.zygote = start_zygote(mux, &journal);
        options.pool = QUERN_POOL_PREFORK;
    }
    int code = fault_serve(argv[0], mux, &options);
    quern_zygote_free(options.zygote);
    quern_mux_free(mux);
    (void)close(journal.fd);
    return code == 0 ? 0 : MORTAL_FAILED;
}
