/* SPDX-License-Identifier: MIT */
/* test_death_text.c - how a process ended, as an error text. */
#include "worker/run/death_text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lib_test.h"
#include "task/limits.h"

enum { CORE = 0x80 };

static int exited(int code)
{
    return code << 8;
}

static void expect(const struct qn_death_facts *facts, const char *expected)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    assert_int_equal(qn_death_text(facts, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
}

static void verdict_names_code_or_signal(void **state)
{
    (void)state;
    const struct {
        int status;
        const char *text;
    } cases[] = {
        {exited(0), "exit status 0"},
        {exited(3), "exit status 3"},
        {exited(128), "exit status 128"},
        {exited(139), "exit status 139 (128 + SIGSEGV)"},
        {exited(255), "exit status 255"},
        {SIGKILL, "killed by signal 9 (SIGKILL)"},
        {SIGABRT | CORE, "killed by signal 6 (SIGABRT), core dumped"},
        {40, "killed by signal 40 (SIG?)"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        expect(&(struct qn_death_facts){.status = cases[i].status}, cases[i].text);
    }
}

static void facts_follow_the_verdict(void **state)
{
    (void)state;
    const struct rusage small = {.ru_utime = {.tv_usec = 250000}, .ru_maxrss = 3000};
    const struct rusage large = {
        .ru_utime = {.tv_sec = 61}, .ru_stime = {.tv_usec = 500000}, .ru_maxrss = 46080};
    expect(&(struct qn_death_facts){.status = SIGSEGV, .usage = &small, .backtrace = ""},
           "killed by signal 11 (SIGSEGV); CPU 250ms, memory 3000 KiB");
    expect(&(struct qn_death_facts){.status = SIGKILL, .usage = &large, .out_of_memory = true},
           "killed by signal 9 (SIGKILL), the system was out of memory; CPU 1m1.5s, memory 45 MiB");
    expect(&(struct qn_death_facts){.status = SIGXCPU,
                                    .over_cpu = true,
                                    .usage = &large,
                                    .stderr_text = {"row 7\n\n", 7},
                                    .backtrace = "#0 loop\n#1 main\n"},
           "killed by signal 24 (SIGXCPU), its CPU limit was reached; CPU 1m1.5s, memory 45 MiB: "
           "row 7\nbacktrace:\n#0 loop\n#1 main");
    expect(&(struct qn_death_facts){.status = SIGKILL,
                                    .note = "it sent a frame of 3 bytes",
                                    .stderr_text = {"x", 1},
                                    .stderr_cut = true},
           "killed by signal 9 (SIGKILL), it sent a frame of 3 bytes: [cut] x");
}

static void blank_stderr_is_no_reason(void **state)
{
    (void)state;
    expect(&(struct qn_death_facts){.status = exited(1), .stderr_text = {" \n\t\r\n", 5}},
           "exit status 1");
}

static void long_stderr_loses_older_lines_and_leaves_room_for_the_backtrace(void **state)
{
    (void)state;
    static char many[20000];
    static char frames[20000];
    for (size_t i = 0; i < sizeof many; i++) {
        many[i] = i % 10 == 9 ? '\n' : 'a';
        frames[i] = i % 10 == 9 ? '\n' : 'f';
    }
    frames[sizeof frames - 1] = '\0';
    struct qn_death_facts facts = {.status = exited(1), .stderr_text = {many, sizeof many}};
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    const char *start = "exit status 1: [cut] aaaaaaaaa\n";
    size_t size = qn_death_text(&facts, text, sizeof text);
    assert_true(size > sizeof text - 20 && size < sizeof text);
    assert_memory_equal(text, start, strlen(start));
    assert_int_equal(text[size - 1], 'a');
    facts.backtrace = frames;
    size = qn_death_text(&facts, text, sizeof text);
    assert_true(size > sizeof text - 20 && size < sizeof text);
    const char *backtrace = strstr(text, "a\nbacktrace:\nfffffffff\n");
    assert_non_null(backtrace);
    assert_in_range(backtrace - text, sizeof text / 2 - 100, sizeof text / 2 + 100);
}

static void any_room_is_enough(void **state)
{
    (void)state;
    const struct rusage usage = {.ru_maxrss = 3000};
    const struct qn_death_facts facts = {.status = SIGSEGV | CORE,
                                         .usage = &usage,
                                         .note = "note",
                                         .stderr_text = {"one\ntwo\n", 8},
                                         .backtrace = "#0 a\n#1 b\n"};
    char whole[256];
    size_t whole_size = qn_death_text(&facts, whole, sizeof whole);
    for (size_t room = 0; room < sizeof whole; room++) {
        char text[256];
        memset(text, 'x', sizeof text);
        size_t size = qn_death_text(&facts, text, room);
        assert_true(size < room || room == 0);
        assert_true(size <= whole_size);
        assert_int_equal(text[room], 'x');
        assert_true(room == 0 || text[size] == '\0');
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(verdict_names_code_or_signal),
    cmocka_unit_test(facts_follow_the_verdict),
    cmocka_unit_test(blank_stderr_is_no_reason),
    cmocka_unit_test(long_stderr_loses_older_lines_and_leaves_room_for_the_backtrace),
    cmocka_unit_test(any_room_is_enough),
};
TEST_MAIN(tests)
