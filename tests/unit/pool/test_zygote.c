/* SPDX-License-Identifier: MIT */
/* test_zygote.c - children and commands of a zygote: how they start, what they find, their ends. */
#include "pool/prefork/zygote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_test.h"
#include "lib_zygote.h"
#include "pool/prefork/zygote_internal.h"
#include "pool/prefork/zygote_main.h"

static void a_child_starts_and_its_end_is_reported(void **state)
{
    (void)state;
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, NULL);
    struct qn_zygote_event event = lib_zygote_end(zygote, &child, 'x');
    assert_int_equal(event.number, 1);
    assert_true(WIFEXITED(event.status));
    assert_int_equal(WEXITSTATUS(event.status), 7);
    assert_true(event.usage.ru_maxrss > 0);
    child = lib_zygote_start(zygote, UINT64_MAX, NULL);
    event = lib_zygote_end(zygote, &child, 's');
    assert_true(event.number == UINT64_MAX);
    assert_true(WIFSIGNALED(event.status));
    assert_int_equal(WTERMSIG(event.status), SIGKILL);
    qn_zygote_free(zygote);
}

static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t count = read(fd, text, size - 1);
    assert_true(count >= 0);
    text[count] = '\0';
    (void)close(fd);
}

static void assert_proc(pid_t pid, const char *name, const char *part)
{
    char text[4096];
    read_proc(pid, name, text, sizeof text);
    if (strstr(text, part) == NULL) {
        fail_msg("%s lacks \"%s\":\n%s", name, part, text);
    }
}

/* As bits, without the two of the C library, which no program can set: a parent may have left them
 * ignored. */
static unsigned long long ignored_signals(pid_t pid)
{
    char text[4096];
    read_proc(pid, "status", text, sizeof text);
    const char *line = strstr(text, "SigIgn:\t");
    assert_non_null(line);
    return strtoull(line + strlen("SigIgn:\t"), NULL, 16) & ~(3ULL << 31);
}

/* How many descriptors it has; ret_bits: a bit for each below 32. */
static int open_fds(pid_t pid, unsigned *ret_bits)
{
    char path[64];
    int count = 0;
    *ret_bits = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            *ret_bits |= 1U << (strtoul(entry->d_name, NULL, 10) & 31U);
            count++;
        }
    }
    (void)closedir(dir);
    return count;
}

static long oom_score(pid_t pid)
{
    char text[32];
    read_proc(pid, "oom_score_adj", text, sizeof text);
    return strtol(text, NULL, 10);
}

/* Our own signals and descriptors are not its own; nor are those of the zygote. */
static void a_child_finds_what_was_promised(void **state)
{
    (void)state;
    char path[64];
    char target[64] = "";
    sigset_t term;
    sigset_t before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &term, &before);
    (void)signal(SIGUSR1, SIG_IGN);
    int extra_fd = open("/dev/null", O_RDONLY); /* not CLOEXEC, and not the child's */
    struct qn_zygote *zygote = lib_zygote_new();
    const struct qn_zygote_limits limits = {
        .address_space_bytes = (uint64_t)1 << 46, .cpu_s = 77, .no_new_privs = true};
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, &limits);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)signal(SIGUSR1, SIG_DFL);
    assert_int_equal(getpgid(child.pid), child.pid);
    assert_int_not_equal(getsid(child.pid), getsid(0));
    unsigned bits = 0;
    int64_t until_ms = test_now_ms() + TEST_PATIENCE_MS; /* it may still be in its set-up */
    while (open_fds(child.pid, &bits) != 5 && test_now_ms() < until_ms) {
        test_pause_ms(1);
    }
    assert_int_equal(bits, 0x1f);
    (void)snprintf(path, sizeof path, "/proc/%d/fd/0", (int)child.pid);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    assert_string_equal(target, "/dev/null");
    assert_proc(child.pid, "status", "SigBlk:\t0000000000000000");
    assert_int_equal(ignored_signals(child.pid), 0);
    assert_proc(child.pid, "status", "NoNewPrivs:\t1");
    assert_proc(child.pid, "comm", "quern-child");
    assert_proc(qn_zygote_pid(zygote), "comm", "quern-zygote");
    assert_proc(child.pid, "limits", "Max cpu time              77                   78");
    assert_proc(child.pid, "limits",
                "Max address space         70368744177664       70368744177664");
    long raised = oom_score(getpid()) + 800;
    assert_int_equal(oom_score(child.pid), raised < 1000 ? raised : 1000);
    assert_int_equal(oom_score(qn_zygote_pid(zygote)), oom_score(getpid()));
    (void)lib_zygote_end(zygote, &child, 'x');
    (void)close(extra_fd);
    qn_zygote_free(zygote);
}

/* What a terminal or a service manager sends to all processes is left to the worker. */
static void signals_do_not_end_a_zygote(void **state)
{
    (void)state;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
    struct qn_zygote *zygote = lib_zygote_new();
    for (size_t i = 0; i < TEST_COUNT(numbers); i++) {
        assert_int_equal(kill(qn_zygote_pid(zygote), numbers[i]), 0);
        struct lib_zygote_child child = lib_zygote_start(zygote, i, NULL);
        (void)lib_zygote_end(zygote, &child, 'x');
    }
    assert_int_not_equal(getsid(qn_zygote_pid(zygote)), getsid(0));
    qn_zygote_free(zygote);
}

enum { CROWD = 200 };

/* Reads the events of all: each STARTED before its ENDED. */
static void read_crowd(struct qn_zygote *zygote, struct lib_zygote_child *children, bool orders)
{
    for (int ended = 0; ended < CROWD;) {
        struct qn_zygote_event event = lib_zygote_event(zygote);
        assert_true(event.number < CROWD);
        struct lib_zygote_child *child = &children[event.number];
        if (event.kind == QN_ZYGOTE_STARTED) {
            assert_int_equal(child->pid, 0);
            child->pid = event.pid;
            child->pid_fd = event.pid_fd;
            if (orders) {
                lib_zygote_order(child, 'x');
            }
            continue;
        }
        assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
        assert_int_equal(event.pid, child->pid);
        assert_int_equal(WEXITSTATUS(event.status), 7);
        lib_zygote_close(child);
        ended++;
    }
}

/* All are requested before an event is read. Afterwards the zygote has no descriptor more (it may
 * have fewer: those of a child's start are closed a moment later). */
static void many_children_start_at_once(void **state)
{
    (void)state;
    static struct lib_zygote_child children[CROWD];
    struct qn_zygote *zygote = lib_zygote_new();
    unsigned bits = 0;
    struct lib_zygote_child other = lib_zygote_start(zygote, CROWD, NULL);
    int fd_count = open_fds(qn_zygote_pid(zygote), &bits);
    for (uint64_t i = 0; i < CROWD; i++) {
        children[i] = lib_zygote_request(zygote, i, NULL);
    }
    read_crowd(zygote, children, true);
    int64_t until_ms = test_now_ms() + TEST_PATIENCE_MS; /* the last guards have to be reaped */
    while (open_fds(qn_zygote_pid(zygote), &bits) > fd_count && test_now_ms() < until_ms) {
        test_pause_ms(1);
    }
    assert_true(open_fds(qn_zygote_pid(zygote), &bits) <= fd_count);
    (void)lib_zygote_end(zygote, &other, 'x');
    qn_zygote_free(zygote);
}

/* A zygote whose socket has room for a few packets only. */
static struct qn_zygote *new_zygote_with_little_room(void)
{
    const int size = 1; /* the least that the kernel allows */
    quern_error error = {0};
    int fds[2];
    struct qn_zygote *zygote = NULL;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    int worker_fd = pidfd_open(getpid(), 0);
    struct qn_zygote_process process = {.socket_fd = fds[0], .pid = fork()};
    if (process.pid == 0) {
        _exit(qn_zygote_main(&lib_zygote_program, fds[1], worker_fd));
    }
    (void)close(fds[1]);
    (void)close(worker_fd);
    assert_ok(qn_zygote_adopt(&process, &zygote, &error), error);
    return zygote;
}

/* What does not fit into the socket waits in the zygote, which goes on. */
static void a_worker_that_does_not_read_blocks_no_child(void **state)
{
    (void)state;
    static struct lib_zygote_child children[CROWD];
    struct qn_zygote *zygote = new_zygote_with_little_room();
    for (uint64_t i = 0; i < CROWD; i++) {
        children[i] = lib_zygote_request(zygote, i, NULL);
        lib_zygote_order(&children[i], 'x');
    }
    for (size_t i = 0; i < CROWD; i++) {
        struct pollfd ended = {.fd = children[i].socket_fd, .events = POLLRDHUP};
        assert_int_equal(poll(&ended, 1, TEST_PATIENCE_MS), 1);
    }
    read_crowd(zygote, children, false);
    struct lib_zygote_child child = lib_zygote_start(zygote, CROWD, NULL);
    (void)lib_zygote_end(zygote, &child, 'x');
    qn_zygote_free(zygote);
}

enum { STARTS = 0, IS_REFUSED = 1, HAS_NO_ZYGOTE = 2, IS_WRONG = 3 };

/* As a user of its own, with a limit of so many processes. No assertions: it is a fork. */
static int start_with_processes(rlim_t count)
{
    const uid_t uid = 54322;
    const struct rlimit limit = {.rlim_cur = count, .rlim_max = count};
    struct qn_zygote *zygote = NULL;
    struct qn_zygote_event event;
    if (setresuid(uid, uid, uid) != 0 || setrlimit(RLIMIT_NPROC, &limit) != 0) {
        return IS_WRONG;
    }
    quern_status status = qn_zygote_fork(&lib_zygote_program, &zygote, NULL);
    if (status != QUERN_OK) {
        return status == QUERN_E_FULL ? HAS_NO_ZYGOTE : IS_WRONG;
    }
    (void)lib_zygote_request(zygote, 3, NULL);
    event = lib_zygote_event(zygote);
    qn_zygote_free(zygote);
    if (event.kind == QN_ZYGOTE_STARTED) {
        return STARTS;
    }
    return event.kind == QN_ZYGOTE_REFUSED && event.number == 3 && event.pid_fd < 0 &&
                   event.error_number == EAGAIN
               ? IS_REFUSED
               : IS_WRONG;
}

/* Room for a zygote alone, then for a guard, then for the child. */
static void a_child_that_gets_no_process_is_refused(void **state)
{
    (void)state;
    TEST_SKIP_UNLESS_ROOT(); /* only root can become another user */
    int refused = 0;
    int code = IS_REFUSED;
    for (rlim_t count = 2; code != STARTS && count < 20; count++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(start_with_processes(count));
        }
        assert_int_equal(waitpid(pid, &code, 0), pid);
        assert_true(WIFEXITED(code));
        code = WEXITSTATUS(code);
        assert_int_not_equal(code, IS_WRONG);
        refused += code == IS_REFUSED ? 1 : 0;
    }
    assert_int_equal(code, STARTS);
    assert_true(refused > 0);
}

/* A folder that is no cgroup is refused as well; the zygote continues. */
static void a_child_that_cannot_join_its_cgroup_is_refused(void **state)
{
    (void)state;
    char dir[TEST_DIR_SIZE];
    test_dir_make(dir);
    int cgroup_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct qn_zygote_limits limits = {.cgroup_fd = cgroup_fd};
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_request(zygote, 1, &limits);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_REFUSED);
    assert_int_equal(event.error_number, ENOENT);
    lib_zygote_close(&child);
    child = lib_zygote_start(zygote, 2, NULL);
    (void)lib_zygote_end(zygote, &child, 'x');
    qn_zygote_free(zygote);
    (void)close(cgroup_fd);
    test_dir_remove(dir);
}

static void a_child_joins_its_cgroup(void **state)
{
    (void)state;
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char path[128];
    char name[64];
    bool is_made = false;
    (void)snprintf(name, sizeof name, "quern-test-%d", (int)getpid());
    for (size_t i = 0; i < TEST_COUNT(roots) && !is_made; i++) {
        (void)snprintf(path, sizeof path, "%s/cgroup.procs", roots[i]);
        if (access(path, F_OK) == 0) {
            (void)snprintf(path, sizeof path, "%s/%s", roots[i], name);
            is_made = mkdir(path, 0700) == 0;
        }
    }
    if (!is_made) {
        TEST_SKIP("no cgroup v2 that may be used");
    }
    int cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct qn_zygote_limits limits = {.cgroup_fd = cgroup_fd};
    struct qn_zygote *zygote = lib_zygote_new();
    struct lib_zygote_child child = lib_zygote_start(zygote, 1, &limits);
    assert_proc(child.pid, "cgroup", name);
    (void)lib_zygote_end(zygote, &child, 'x');
    qn_zygote_free(zygote);
    (void)close(cgroup_fd);
    assert_int_equal(rmdir(path), 0);
}

static void a_command_runs_with_its_environment_and_descriptors(void **state)
{
    (void)state;
    static const char *const environment[] = {"A=one", "B=two words", NULL};
    char text[256];
    struct qn_zygote *zygote = lib_zygote_new();
    int fd =
        lib_zygote_command(zygote, 5, "echo $A $B; cd /proc/self/fd; echo *; exit 3", environment);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_STARTED);
    assert_int_equal(event.number, 5);
    pid_t pid = event.pid;
    (void)close(event.pid_fd);
    lib_zygote_read(fd, text, sizeof text, false);
    assert_string_equal(text, "one two words\n0 1 2\n"); /* 2: the directory that it lists */
    event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    assert_int_equal(event.pid, pid);
    assert_int_equal(WEXITSTATUS(event.status), 3);
    (void)close(fd);
    qn_zygote_free(zygote);
}

static void a_command_with_too_large_an_environment_is_refused(void **state)
{
    (void)state;
    enum { LARGE = 1 << 20 };
    char *large = test_malloc(LARGE);
    memset(large, 'A', LARGE - 1);
    large[1] = '=';
    large[LARGE - 1] = '\0';
    const char *const environment[] = {large, NULL};
    struct qn_zygote *zygote = lib_zygote_new();
    int fd = lib_zygote_command(zygote, 1, "true", environment);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_REFUSED);
    assert_int_equal(event.error_number, E2BIG);
    (void)close(fd);
    qn_zygote_free(zygote);
    test_free(large);
}

static void a_signal_reaches_the_group_of_a_command(void **state)
{
    (void)state;
    char text[64];
    struct qn_zygote *zygote = lib_zygote_new();
    int fd = lib_zygote_command(
        zygote, 1,
        "trap 'echo shell' TERM; (trap 'echo sub; exit' TERM; echo on; sleep 1000 & wait) & "
        "wait; wait; exit 4",
        NULL);
    struct qn_zygote_event event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_STARTED);
    lib_zygote_read(fd, text, sizeof text, true);
    assert_string_equal(text, "on\n");
    qn_zygote_kill(event.pid, event.pid_fd, SIGTERM);
    lib_zygote_read(fd, text, sizeof text, false);
    assert_non_null(strstr(text, "shell"));
    assert_non_null(strstr(text, "sub"));
    (void)close(event.pid_fd);
    event = lib_zygote_event(zygote);
    assert_int_equal(event.kind, QN_ZYGOTE_ENDED);
    assert_int_equal(WEXITSTATUS(event.status), 4);
    (void)close(fd);
    qn_zygote_free(zygote);
}

static void *idle(void *user)
{
    char byte = 0;
    (void)!read(*(int *)user, &byte, 1);
    return NULL;
}

static void a_program_with_threads_is_refused(void **state)
{
    (void)state;
    int fds[2];
    pthread_t thread;
    struct qn_zygote *zygote = NULL;
    quern_error error = {0};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, idle, &fds[0]), 0);
    assert_int_equal(qn_zygote_fork(&lib_zygote_program, &zygote, &error), QUERN_E_THREADS);
    (void)close(fds[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fds[0]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_child_starts_and_its_end_is_reported),
    cmocka_unit_test(a_child_finds_what_was_promised),
    cmocka_unit_test(signals_do_not_end_a_zygote),
    cmocka_unit_test(many_children_start_at_once),
    cmocka_unit_test(a_worker_that_does_not_read_blocks_no_child),
    cmocka_unit_test(a_child_that_gets_no_process_is_refused),
    cmocka_unit_test(a_child_that_cannot_join_its_cgroup_is_refused),
    cmocka_unit_test(a_child_joins_its_cgroup),
    cmocka_unit_test(a_command_runs_with_its_environment_and_descriptors),
    cmocka_unit_test(a_command_with_too_large_an_environment_is_refused),
    cmocka_unit_test(a_signal_reaches_the_group_of_a_command),
    cmocka_unit_test(a_program_with_threads_is_refused),
};
TEST_MAIN(tests)
