/* SPDX-License-Identifier: MIT */
/* test_child.c - shell commands as children: their ends, their pipes, their cancellation. */
#include "pool/exec/child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory/alloc.h"
#include "lib_child.h"
#include "lib_test.h"

#define MIB ((size_t)1 << 20)

static void exit_codes_are_reported(void **state)
{
    (void)state;
    static const int codes[] = {0, 1, 65, 75, 255};
    for (size_t i = 0; i < TEST_COUNT(codes); i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "exit %d", codes[i]);
        struct qn_child_spec spec = lib_child_spec(text);
        struct qn_child_end end = lib_child_run(&spec);
        assert_true(end.exited);
        assert_int_equal(end.code, codes[i]);
        assert_false(end.cancelled);
        qn_child_end_finish(&end);
    }
}

/* As a user of its own, with a limit of one process beside this one: the guard, but no shell. */
static int run_without_a_process_for_the_shell(void)
{
    const uid_t uid = 54321;
    const struct rlimit limit = {.rlim_cur = 2, .rlim_max = 2};
    struct qn_child_spec spec = lib_child_spec("true");
    struct qn_child_end end;
    quern_error error = {0};
    spec.launcher = NULL; /* it is of the process that forked */
    if (setresuid(uid, uid, uid) != 0 || setrlimit(RLIMIT_NPROC, &limit) != 0) {
        return 1;
    }
    if (qn_child_run(&spec, &end, &error) != QUERN_E_FULL) {
        return 2;
    }
    return strstr(error.text, "no process for a command") != NULL ? 0 : 3;
}

static void a_command_whose_shell_gets_no_process_did_not_run(void **state)
{
    (void)state;
    TEST_SKIP_UNLESS_ROOT(); /* only root can become another user */
    pid_t pid = fork();
    if (pid == 0) {
        _exit(run_without_a_process_for_the_shell());
    }
    int code = -1;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
}

static void a_missing_command_is_127(void **state)
{
    (void)state;
    struct qn_child_spec spec = lib_child_spec("/no/such/program");
    struct qn_child_end end = lib_child_run(&spec);
    assert_true(end.exited);
    assert_int_equal(end.code, 127);
    assert_non_null(strstr(qn_buf_text(&end.stderr_text), "not found"));
    qn_child_end_finish(&end);
}

static void death_by_a_signal_is_reported(void **state)
{
    (void)state;
    struct qn_child_spec spec = lib_child_spec("kill -SEGV $$");
    struct qn_child_end end = lib_child_run(&spec);
    assert_false(end.exited);
    assert_int_equal(end.signal, SIGSEGV);
    assert_false(end.cancelled);
    qn_child_end_finish(&end);
}

static void input_and_environment_arrive_and_output_comes_back(void **state)
{
    (void)state;
    setenv("CHILD_TEST_OURS", "kept", 1);
    setenv("CHILD_TEST_BOTH", "old", 1);
    static const char *const environment[] = {"CHILD_TEST_BOTH=new", "CHILD_TEST_MORE=a b", NULL};
    struct qn_child_spec spec =
        lib_child_spec("cat; printf %s \" $CHILD_TEST_OURS $CHILD_TEST_BOTH $CHILD_TEST_MORE\"");
    spec.environment = environment;
    spec.input = "one\0two";
    spec.input_size = 7;
    struct qn_child_end end = lib_child_run(&spec);
    assert_int_equal(end.output.size, 7 + strlen(" kept new a b"));
    assert_memory_equal(end.output.data, "one\0two kept new a b", end.output.size);
    assert_int_equal(end.stdout_dropped, 0);
    qn_child_end_finish(&end);
}

static void huge_output_is_cut_and_the_child_runs_on(void **state)
{
    (void)state;
    struct qn_child_spec spec = lib_child_spec("head -c 10485760 /dev/zero; exit 3");
    struct qn_child_end end = lib_child_run(&spec);
    assert_int_equal(end.code, 3);
    assert_int_equal(end.output.size, 4096);
    assert_true(end.stdout_dropped > 0);
    qn_child_end_finish(&end);
}

static void the_last_bytes_of_stderr_are_kept(void **state)
{
    (void)state;
    struct qn_child_spec spec = lib_child_spec("seq 100000 >&2; printf end >&2");
    struct qn_child_end end = lib_child_run(&spec);
    assert_int_equal(end.stderr_text.size, 256);
    const char *text = qn_buf_text(&end.stderr_text);
    assert_string_equal(text + 256 - strlen("99999\n100000\nend"), "99999\n100000\nend");
    qn_child_end_finish(&end);
}

static void a_child_that_reads_nothing_does_not_block_us(void **state)
{
    (void)state;
    char *input = qn_alloc_zero(1, 5 * MIB);
    assert_non_null(input);
    static const char *const commands[] = {"exit 0", "exec 0<&-; head -c 200000 /dev/zero"};
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct qn_child_spec spec = lib_child_spec(commands[i]);
        spec.input = input;
        spec.input_size = 5 * MIB;
        struct qn_child_end end = lib_child_run(&spec);
        assert_true(end.exited);
        assert_int_equal(end.code, 0);
        qn_child_end_finish(&end);
    }
    qn_free(input);
}

static void a_child_that_writes_before_it_reads_gets_all_input(void **state)
{
    (void)state;
    char *input = qn_alloc_zero(1, 5 * MIB);
    assert_non_null(input);
    struct qn_child_spec spec = lib_child_spec("head -c 1000000 /dev/zero; wc -c >&2");
    spec.input = input;
    spec.input_size = 5 * MIB;
    struct qn_child_end end = lib_child_run(&spec);
    assert_string_equal(qn_buf_text(&end.stderr_text), "5242880\n");
    qn_child_end_finish(&end);
    qn_free(input);
}

/* Makes the descriptor readable once the child has reported that it is ready. */
struct canceller {
    pthread_t thread;
    int ready_fd;
    int cancel_fd;
};

static void *cancel_when_ready(void *argument)
{
    struct canceller *canceller = argument;
    char byte;
    const uint64_t one = 1;
    if (read(canceller->ready_fd, &byte, 1) == 1) {
        ssize_t written = write(canceller->cancel_fd, &one, sizeof one);
        (void)written;
    }
    return NULL;
}

/* Runs a command that writes to fifo "$READY" when it may be cancelled. */
static struct qn_child_end run_and_abandon(const char *text, int64_t kill_after_ms,
                                           const _Atomic bool *abandoned)
{
    char dir[TEST_DIR_SIZE];
    test_dir_make(dir);
    char variable[128];
    (void)snprintf(variable, sizeof variable, "READY=%s/ready", dir);
    const char *const environment[] = {variable, NULL};
    assert_int_equal(mkfifo(variable + strlen("READY="), 0600), 0);
    struct canceller canceller = {
        .ready_fd = open(variable + strlen("READY="), O_RDWR | O_CLOEXEC),
        .cancel_fd = eventfd(0, EFD_CLOEXEC),
    };
    pthread_create(&canceller.thread, NULL, cancel_when_ready, &canceller);
    struct qn_child_spec spec = lib_child_spec(text);
    spec.environment = environment;
    spec.cancel_fd = canceller.cancel_fd;
    spec.kill_after_ms = kill_after_ms;
    spec.abandoned = abandoned;
    struct qn_child_end end = lib_child_run(&spec);
    pthread_join(canceller.thread, NULL);
    close(canceller.ready_fd);
    close(canceller.cancel_fd);
    test_dir_remove(dir);
    return end;
}

static struct qn_child_end run_and_cancel(const char *text, int64_t kill_after_ms)
{
    return run_and_abandon(text, kill_after_ms, NULL);
}

static void cancelling_terminates_the_whole_group(void **state)
{
    (void)state;
    struct qn_child_end end =
        run_and_cancel("sleep 1000 & echo $! >&2; echo >\"$READY\"; wait; wait", 60000);
    assert_true(end.cancelled);
    assert_false(end.exited);
    assert_int_equal(end.signal, SIGTERM);
    pid_t grandchild = (pid_t)strtol(qn_buf_text(&end.stderr_text), NULL, 10);
    assert_true(grandchild > 0);
    /* It may be a zombie of init for a moment, but it runs no more: its pipes are closed. */
    qn_child_end_finish(&end);
}

static void a_child_may_end_well_after_it_was_cancelled(void **state)
{
    (void)state;
    struct qn_child_end end = run_and_cancel(
        "trap 'exit 0' TERM; echo >\"$READY\"; while :; do sleep 1000 & wait; done", 60000);
    assert_true(end.cancelled);
    assert_true(end.exited);
    assert_int_equal(end.code, 0);
    qn_child_end_finish(&end);
}

static void a_child_that_ignores_term_is_killed(void **state)
{
    (void)state;
    struct qn_child_end end =
        run_and_cancel("trap '' TERM; echo >\"$READY\"; while :; do sleep 1000; done", 50);
    assert_true(end.cancelled);
    assert_false(end.exited);
    assert_int_equal(end.signal, SIGKILL);
    qn_child_end_finish(&end);
}

static void a_child_that_left_its_group_is_killed_too(void **state)
{
    (void)state;
    struct qn_child_end end = run_and_cancel(
        "exec perl -e 'setpgrp(0, getpgrp(getppid())); $SIG{TERM} = \"IGNORE\";"
        " open(my $ready, \">\", $ENV{READY}); print $ready \"x\"; close $ready; sleep 1000'",
        50);
    assert_true(end.cancelled);
    assert_false(end.exited);
    assert_int_equal(end.signal, SIGKILL);
    qn_child_end_finish(&end);
}

static void a_child_whose_run_was_given_up_is_killed_at_once(void **state)
{
    (void)state;
    static const _Atomic bool abandoned = true;
    struct qn_child_end end =
        run_and_abandon("trap '' TERM; echo >\"$READY\"; while :; do sleep 1000; done",
                        2 * INT64_C(1000) * TEST_PATIENCE_MS, &abandoned);
    assert_true(end.cancelled);
    assert_int_equal(end.signal, SIGKILL);
    qn_child_end_finish(&end);
}

static void what_is_left_of_the_group_dies_with_the_child(void **state)
{
    (void)state;
    struct qn_child_spec spec = lib_child_spec("sleep 1000 & echo started");
    struct qn_child_end end = lib_child_run(&spec); /* would wait 1000 s for the end of the pipe */
    assert_int_equal(end.code, 0);
    assert_string_equal(qn_buf_text(&end.output), "started\n");
    qn_child_end_finish(&end);
}

static void strangers_that_hold_the_pipes_are_not_waited_for(void **state)
{
    (void)state;
    /* head ends the command once the stranger, in a session of its own, has written its pid; it
     * keeps our stderr open. */
    struct qn_child_spec spec =
        lib_child_spec("{ setsid sh -c 'echo $$ >&3; exec sleep 1000' 3>&1 >&2 & } | head -1");
    struct qn_child_end end = lib_child_run(&spec);
    assert_int_equal(end.code, 0);
    pid_t stranger = (pid_t)strtol(qn_buf_text(&end.output), NULL, 10);
    assert_true(stranger > 1);
    assert_int_equal(kill(stranger, SIGKILL), 0);
    qn_child_end_finish(&end);
}

static void a_program_without_stdin_can_run_children(void **state)
{
    (void)state;
    int saved = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    struct qn_child_spec spec = lib_child_spec("cat; ls /proc/self/fd | wc -l");
    spec.input = "in\n";
    spec.input_size = 3;
    struct qn_child_end end = lib_child_run(&spec);
    assert_string_equal(qn_buf_text(&end.output), "in\n4\n"); /* 0, 1, 2 and that of ls */
    qn_child_end_finish(&end);
    if (saved >= 0) {
        assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
        close(saved);
    }
}

static void a_child_starts_with_default_signals(void **state)
{
    (void)state;
    sigset_t term;
    sigset_t before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    sigaction(SIGUSR1, &ignore, &old);
    /* Signals 1 to 28; make leaves 32 and 33 ignored, which glibc keeps for itself. */
    struct qn_child_spec spec =
        lib_child_spec("sed -nE 's/^Sig(Blk|Ign):.*(.{7})$/\\1 \\2/p' /proc/self/status");
    struct qn_child_end end = lib_child_run(&spec);
    sigaction(SIGUSR1, &old, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_string_equal(qn_buf_text(&end.output), "Blk 0000000\nIgn 0000000\n");
    qn_child_end_finish(&end);
}

static void no_command_starts_with_too_large_an_environment(void **state)
{
    (void)state;
    static char huge[300000]; /* the kernel takes 128 KiB for one variable */
    memset(huge, 'x', sizeof huge - 1);
    setenv("CHILD_TEST_HUGE", huge, 1);
    struct qn_child_spec spec = lib_child_spec("true");
    spec.stderr_size_max = 1; /* where it is reported */
    struct qn_child_end end;
    quern_error error = {0};
    quern_status status = qn_child_run(&spec, &end, &error);
    unsetenv("CHILD_TEST_HUGE");
    assert_int_equal(status, QUERN_E_INVALID);
    assert_non_null(strstr(error.text, "too large"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(exit_codes_are_reported),
    cmocka_unit_test(a_missing_command_is_127),
    cmocka_unit_test(a_command_whose_shell_gets_no_process_did_not_run),
    cmocka_unit_test(death_by_a_signal_is_reported),
    cmocka_unit_test(input_and_environment_arrive_and_output_comes_back),
    cmocka_unit_test(huge_output_is_cut_and_the_child_runs_on),
    cmocka_unit_test(the_last_bytes_of_stderr_are_kept),
    cmocka_unit_test(a_child_that_reads_nothing_does_not_block_us),
    cmocka_unit_test(a_child_that_writes_before_it_reads_gets_all_input),
    cmocka_unit_test(cancelling_terminates_the_whole_group),
    cmocka_unit_test(a_child_may_end_well_after_it_was_cancelled),
    cmocka_unit_test(a_child_that_ignores_term_is_killed),
    cmocka_unit_test(a_child_that_left_its_group_is_killed_too),
    cmocka_unit_test(a_child_whose_run_was_given_up_is_killed_at_once),
    cmocka_unit_test(what_is_left_of_the_group_dies_with_the_child),
    cmocka_unit_test(strangers_that_hold_the_pipes_are_not_waited_for),
    cmocka_unit_test(a_program_without_stdin_can_run_children),
    cmocka_unit_test(a_child_starts_with_default_signals),
    cmocka_unit_test(no_command_starts_with_too_large_an_environment),
};

int main(int argc, char **argv)
{
    const struct test_group group = {
        .name = argv[0], .tests = tests, .test_count = TEST_COUNT(tests)};
    return lib_child_main_twice(argc, argv, &group);
}
