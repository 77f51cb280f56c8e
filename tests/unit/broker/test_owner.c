/* SPDX-License-Identifier: MIT */
/* test_owner.c - the owner of a lease: live, dead, or unknown. */
#include "lib_test.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/owner.h"

#define OTHER_BOOT "01234567-89ab-cdef-0123-456789abcdef"

struct parts {
    char boot_id[QN_BOOT_ID_SIZE];
    uint64_t pid_ns;
    int64_t pid;
    uint64_t start_time;
};

static struct parts self_parts(void)
{
    char text[QN_OWNER_SIZE];
    struct parts parts = {0};
    quern_error err = {0};
    assert_ok(qn_owner_self(text, &err), err);
    assert_int_equal(sscanf(text, "%36[^:]:%" SCNu64 ":%" SCNd64 ":%" SCNu64, parts.boot_id,
                            &parts.pid_ns, &parts.pid, &parts.start_time),
                     4);
    return parts;
}

static enum qn_owner_state judge(const struct parts *parts)
{
    char text[QN_OWNER_SIZE];
    (void)snprintf(text, sizeof text, "%s:%" PRIu64 ":%" PRId64 ":%" PRIu64, parts->boot_id,
                   parts->pid_ns, parts->pid, parts->start_time);
    return qn_owner_judge(text);
}

static void this_process_is_alive(void **state)
{
    (void)state;
    char text[QN_OWNER_SIZE];
    quern_error err = {0};
    assert_ok(qn_owner_self(text, &err), err);
    assert_int_equal(qn_owner_judge(text), QN_OWNER_ALIVE);
    assert_true(qn_owner_same_boot(text));
    assert_int_equal(self_parts().pid, getpid());
}

static void reaped_process_is_dead(void **state)
{
    (void)state;
    struct parts parts = self_parts();
    struct test_child child = test_spawn("idle", NULL);
    assert_int_equal(test_child_receive(&child), 'I');
    parts.pid = child.pid;
    test_child_kill(&child);
    assert_int_equal(judge(&parts), QN_OWNER_DEAD);
}

/* The owner text of a child, as it would announce it. */
static void receive_owner(const struct test_child *child, char *out, size_t out_size)
{
    size_t size = 0;
    for (char byte = test_child_receive(child); byte != '\n' && byte != '\0';
         byte = test_child_receive(child)) {
        assert_true(size + 1 < out_size);
        out[size++] = byte;
    }
    out[size] = '\0';
}

static void child_is_judged_by_another_process(void **state)
{
    (void)state;
    char owner[QN_OWNER_SIZE];
    struct test_child child = test_spawn("named", NULL);
    receive_owner(&child, owner, sizeof owner);
    assert_int_equal(qn_owner_judge(owner), QN_OWNER_ALIVE);
    test_child_kill(&child);
    assert_int_equal(qn_owner_judge(owner), QN_OWNER_DEAD);
}

static void zombie_is_dead(void **state)
{
    (void)state;
    char owner[QN_OWNER_SIZE];
    struct test_child child = test_spawn("named", NULL);
    receive_owner(&child, owner, sizeof owner);
    siginfo_t info;
    assert_int_equal(kill(child.pid, SIGKILL), 0);
    /* Waits for its end, but leaves it unreaped. */
    assert_int_equal(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(qn_owner_judge(owner), QN_OWNER_DEAD);
    test_child_kill(&child);
}

static void later_process_with_the_same_pid_is_another(void **state)
{
    (void)state;
    struct parts parts = self_parts();
    parts.start_time -= 1;
    assert_int_equal(judge(&parts), QN_OWNER_DEAD);
}

/* In a child: judges its parent as another user, under a /proc that shows users only what is their
 * own. 99: that cannot be set up here. */
static int judge_unseen(const char *owner)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || setgid(65534) != 0 ||
        setuid(65534) != 0) {
        return 99;
    }
    return (int)qn_owner_judge(owner);
}

static void process_that_proc_hides_is_not_dead(void **state)
{
    (void)state;
    char owner[QN_OWNER_SIZE];
    quern_error err = {0};
    assert_ok(qn_owner_self(owner, &err), err);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(judge_unseen(owner));
    }
    int ended = 0;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    if (WEXITSTATUS(ended) == 99) {
        TEST_SKIP("no mount namespace with a /proc of its own can be made here");
    }
    assert_int_equal(WEXITSTATUS(ended), QN_OWNER_UNKNOWN);
}

static void foreign_kernels_and_namespaces_are_not_judged(void **state)
{
    (void)state;
    struct parts parts = self_parts();
    parts.pid_ns += 1;
    assert_int_equal(judge(&parts), QN_OWNER_UNKNOWN);
    parts = self_parts();
    (void)snprintf(parts.boot_id, sizeof parts.boot_id, "%s", OTHER_BOOT);
    assert_int_equal(judge(&parts), QN_OWNER_UNKNOWN);
    assert_false(qn_owner_same_boot(OTHER_BOOT ":1:1:1"));
}

static void malformed_owners_are_not_judged(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "x",
                                        ":::",
                                        OTHER_BOOT,
                                        OTHER_BOOT ":1",
                                        OTHER_BOOT ":1:1",
                                        OTHER_BOOT ":1:1:1:1",
                                        OTHER_BOOT ":1:1:1 ",
                                        OTHER_BOOT ":1:-1:1",
                                        OTHER_BOOT ":a:b:c"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        assert_int_equal(qn_owner_judge(texts[i]), QN_OWNER_UNKNOWN);
        assert_false(qn_owner_same_boot(texts[i]));
    }
}

static int idle(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    test_parent_send('I');
    (void)test_parent_receive();
    return 0;
}

static int named(int argc, char **argv)
{
    char owner[QN_OWNER_SIZE];
    (void)argc;
    (void)argv;
    TEST_REQUIRE(qn_owner_self(owner, NULL) == QUERN_OK);
    for (const char *at = owner; *at != '\0'; at++) {
        test_parent_send(*at);
    }
    test_parent_send('\n');
    (void)test_parent_receive();
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(this_process_is_alive),
    cmocka_unit_test(reaped_process_is_dead),
    cmocka_unit_test(child_is_judged_by_another_process),
    cmocka_unit_test(zombie_is_dead),
    cmocka_unit_test(later_process_with_the_same_pid_is_another),
    cmocka_unit_test(process_that_proc_hides_is_not_dead),
    cmocka_unit_test(foreign_kernels_and_namespaces_are_not_judged),
    cmocka_unit_test(malformed_owners_are_not_judged),
};

int main(int argc, char **argv)
{
    static const struct test_role roles[] = {{.name = "idle", .main = idle},
                                             {.name = "named", .main = named}};
    const struct test_group group = {.name = "owner",
                                     .tests = tests,
                                     .test_count = TEST_COUNT(tests),
                                     .roles = roles,
                                     .role_count = TEST_COUNT(roles)};
    return test_main(argc, argv, &group);
}
