#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern work --handlers: C handlers of a shared object, in children of a zygote."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import lib_cli
from lib_cli import CliTest, EXIT_CONFIG, EXIT_FAILURE, EXIT_TASKS_FAILED, EXIT_USAGE
from lib_quern import is_alive

SOURCE = os.environ["QUERN_SOURCE"]
HEAD = """
#include <quern/handlers.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static quern_outcome answer(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    return quern_run_write_result(run, user, strlen(user), NULL) == QUERN_OK ? QUERN_DONE
                                                                             : QUERN_RETRY;
}
"""
VERSION = HEAD + """
QUERN_HANDLERS(mux, err)
{
    static char text[] = "%s";
    return quern_mux_handle(mux, "%s", answer, text, NULL, err);
}
"""
POLICIES = HEAD + """
static quern_outcome fail(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    quern_run_set_error_class(run, "dns");
    return quern_run_fail(run, QUERN_RETRY, "no name server");
}
static quern_outcome hang(quern_run *run, const quern_task *task, void *user)
{
    for (;;) {
        (void)(run != NULL && task != NULL && user != NULL);
        pause();
    }
}
static quern_outcome crash(quern_run *run, const quern_task *task, void *user)
{
    (void)(run != NULL && task != NULL && user != NULL);
    abort();
}
QUERN_HANDLERS(mux, err)
{
    static const char *const only[] = {"disk", NULL};
    const quern_handler_options own = {.retry_max = 7, .only_retry = only};
    quern_status status = quern_mux_handle(mux, "own", fail, NULL, &own, err);
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "other", fail, NULL, &own, err);
    }
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "hang", hang, NULL, NULL, err);
    }
    if (status == QUERN_OK) {
        status = quern_mux_handle(mux, "crash", crash, NULL, NULL, err);
    }
    return status;
}
"""


LEAK = HEAD + """
#include <stdio.h>
static quern_outcome leak(quern_run *run, const quern_task *task, void *user)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%d", (int)getpid());
    char *block = malloc((size_t)atoi(task->payload) + 1);
    memset(block, 1, (size_t)atoi(task->payload) + 1);
    return answer(run, task, user != NULL ? user : text);
}
QUERN_HANDLERS(mux, err)
{
    return quern_mux_handle(mux, "leak", leak, NULL, NULL, err);
}
"""


# What a constructor does (%s) before anything is registered.
CONSTRUCTOR = """
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
#include "quern/handlers.h"
__attribute__((constructor)) static void construct(void)
{
    %s
}
static quern_outcome look(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    char text[4096] = "";
    int fd = open("/proc/self/status", O_RDONLY);
    if (read(fd, text, sizeof text - 1) <= 0) {
        return QUERN_RETRY;
    }
    const char *at = strstr(text, "NoNewPrivs:");
    return quern_run_write_result(run, at + 12, 1, NULL) == QUERN_OK ? QUERN_DONE : QUERN_RETRY;
}
QUERN_HANDLERS(mux, err)
{
    return quern_mux_handle(mux, "look", look, NULL, NULL, err);
}
"""
FORKS = """
    FILE *pids = fopen("pids", "a");
    for (int i = 0; i < 3; i++) {
        int fds[2];
        if (pipe(fds) != 0 || fork() == 0) {
            pid_t pid = i == 1 ? setsid() : getpid();
            pid = i == 2 ? fork() : pid; /* its parent is gone at once */
            if (i == 2 && pid != 0) {
                _exit(0);
            }
            (void)dprintf(fds[1], "%d", (int)getpid());
            close(fds[1]);
            alarm(100);
            for (;;) {
                pause();
            }
        }
        char text[32] = "";
        close(fds[1]);
        if (read(fds[0], text, sizeof text - 1) > 0) {
            fprintf(pids, "%s ", text);
        }
        close(fds[0]);
    }
    fclose(pids);
"""
# And what it does at its end.
HANGS = """
}
__attribute__((destructor)) static void hang(void)
{
    for (;;) {
        pause();
    }
"""


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text(encoding="ascii").split()]
    return found


def comm(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()


class HandlersTest(CliTest):
    def compile(self, text, name="handlers.so"):
        """Under another name first, since a worker may load it at this moment."""
        source = self.write(name + ".c", text)
        result = subprocess.run([os.environ["CC"], "-g", "-shared", "-fPIC", "-D_GNU_SOURCE",
                                 "-I" + os.path.join(SOURCE, "include"), "-o",
                                 self.path(name + ".new"), source],
                                capture_output=True, check=False, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stderr)
        os.rename(self.path(name + ".new"), self.path(name))

    def example(self):
        with open(os.path.join(SOURCE, "examples/handlers.c"), encoding="utf-8") as file:
            self.compile(file.read())

    def test_handlers_and_commands_run_and_a_crash_costs_one_run(self):
        self.example()
        for number in range(20):
            self.enqueue("greet", f"n{number}", "--id", f"g{number}", "--retention", "1h")
        self.enqueue("divide", "6 0", "--id", "d", "--retry-max", "never")
        self.enqueue("text", "x", "--id", "c", "--retention", "1h")
        self.enqueue("what", "--id", "w")
        result = self.quern("work", "--drain", "--pool", "prefork", "--handlers", "handlers.so",
                            "--exec", "text=cat", "--unknown", "archive")
        self.assertEqual(result.returncode, EXIT_TASKS_FAILED, result.stderr)
        for number in range(20):
            self.assertEqual(self.ok("task", "inspect", f"g{number}", "--result"),
                             f"hello, n{number}")
            self.assert_ran_once(self.task(f"g{number}"))
        self.assertEqual(self.ok("task", "inspect", "c", "--result"), "x")
        crashed = self.task("d")
        self.assertEqual(crashed["state"], "archived")
        self.assertIn("killed by signal 8 (SIGFPE)", crashed["error"])
        self.assertIn("handlers.so", crashed["error"])
        self.assertIn("handler not found", self.task("w")["error"])
        self.assertIn('types="divide greet text"', result.stderr)

    def test_addr2line_names_a_function_of_a_backtrace(self):
        """By the command that docs/guide/fault-tolerance.md shows."""
        with open(os.path.join(SOURCE, "docs/guide/fault-tolerance.md"), encoding="utf-8") as file:
            shown = re.search(r"^addr2line (\S+) \./handlers\.so \+0x[0-9a-f]+$", file.read(),
                              re.MULTILINE)
        self.compile(HEAD + """
static volatile int *nowhere;
__attribute__((noinline)) static int fall_down(void)
{
    return *nowhere + 1;
}
static quern_outcome crash(quern_run *run, const quern_task *task, void *user)
{
    (void)(run != NULL && task != NULL && user != NULL);
    return fall_down() > 0 ? QUERN_DONE : QUERN_DROP;
}
QUERN_HANDLERS(mux, err)
{
    (void)answer;
    return quern_mux_handle(mux, "crash", crash, NULL, NULL, err);
}
""")
        self.enqueue("crash", "--id", "c", "--retry", "never")
        self.quern("work", "--drain", "--handlers", "handlers.so", "--on-crash", "archive")
        lines = re.findall(r"^\S*handlers\.so\((\+0x[0-9a-f]+)\)", self.task("c")["error"],
                           re.MULTILINE)
        self.assertGreater(len(lines), 1, self.task("c")["error"])
        self.assertRegex(self.task("c")["error"], r"handlers\.so\(\S+ fall_down\n.*"
                         r"handlers\.so\(\S+ crash\n", "the names of static functions")
        if shutil.which("addr2line") is None:
            self.skipTest("no addr2line")
        result = subprocess.run(["addr2line", shown[1], self.path("handlers.so"), *lines],
                                capture_output=True, check=True, encoding="utf-8")
        self.assertRegex(result.stdout, r"^fall_down at \S+handlers\.so\.c:\d+\n.*"
                         r"crash at \S+handlers\.so\.c:\d+")

    def test_library_that_is_linked_with_libquern_uses_the_program_s(self):
        """Else its handlers would be registered with another copy of the library."""
        library = os.environ["QUERN_LIBRARY"]
        source = self.write("linked.c", VERSION % ("linked", "t"))
        result = subprocess.run([os.environ["CC"], "-shared", "-fPIC", "-D_GNU_SOURCE",
                                 "-I" + os.path.join(SOURCE, "include"), "-o",
                                 self.path("linked.so"), source, library,
                                 "-Wl,-rpath," + os.path.dirname(library)],
                                capture_output=True, check=False, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.enqueue("t", "--id", "a", "--retention", "1h")
        result = self.quern("work", "--drain", "--handlers", "./linked.so",
                            env={"ASAN_OPTIONS": "detect_odr_violation=0"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.ok("task", "inspect", "a", "--result"), "linked")

    def test_wrong_libraries_end_the_worker_before_it_takes_tasks(self):
        self.enqueue("t", "--id", "a")
        self.write("text.so", "no library\n")
        self.compile(HEAD + "int nothing;\n", "empty.so")
        self.compile(HEAD + "QUERN_HANDLERS(mux, err)\n{ (void)mux; (void)err; abort(); }\n",
                     "abort.so")
        self.compile(HEAD + "void missing(void);\nQUERN_HANDLERS(mux, err)\n"
                            "{ (void)mux; (void)err; missing(); return QUERN_OK; }\n", "miss.so")
        self.compile(HEAD + "QUERN_HANDLERS(mux, err)\n"
                            "{ (void)mux; (void)err; return QUERN_OK; }\n", "idle.so")
        with open(self.path("miss.so"), "rb") as file:
            head = bytearray(file.read())
        head[18:20] = head[18] ^ 1, head[19]  # e_machine
        with open(self.path("arm.so"), "wb") as file:
            file.write(head)
        os.mkdir(self.path("folder.so"))
        for name, why in (("none.so", "./none.so: No such file"),
                          ("text.so", "./text.so: not a shared object"),
                          ("folder.so", "./folder.so: it is a directory"),
                          ("arm.so", "./arm.so: compiled for another machine"),
                          ("empty.so", "./empty.so: no function quern_handlers"),
                          ("idle.so", "./idle.so: quern_handlers registers no handler"),
                          ("miss.so", "./miss.so: undefined symbol: missing"),
                          ("abort.so", "abort.so: the process that loads it ended before it")):
            with self.subTest(name=name):
                said = self.fails(EXIT_CONFIG, "work", "--handlers", name, "--drain")
                self.assertIn(f"quern: work: --handlers: {why}", said)
        self.assertEqual(self.state("a"), "pending")

    def test_wrong_options_are_explained(self):
        self.example()
        for args, why in ((("--pool", "prefork"), "needs --handlers FILE"),
                          (("--pool", "cloud", "--exec", "a=true"), "not prefork or threads"),
                          (("--pool", "threads", "--handlers", "handlers.so"), "prefork pool only"),
                          (("--handlers", "handlers.so", "--exec", "greet=true"), "greet"),
                          (("--handlers", "handlers.so", "--child-runs", "0"), "--child-runs"),
                          (("--handlers", "handlers.so", "--child-rss", "0"), "--child-rss"),
                          (("--handlers", "handlers.so", "--unknown", "x"), "--unknown")):
            with self.subTest(args=args):
                self.assertIn(why, self.fails(EXIT_USAGE, "work", "--drain", *args))

    def test_options_of_patterns_come_before_those_of_the_object(self):
        self.compile(POLICIES)
        for kind in ("own", "other", "hang", "crash", "sh"):
            self.enqueue(kind, "", "--id", kind)
        result = self.quern("work", "--until-idle", "--handlers", "handlers.so", "--exec",
                            "sh=exit 2", "--no-retry-on", "other=tls", "--retry-max", "other=3",
                            "--timeout", "hang=200ms", "--kill-after", "hang=200ms", "--ack-on",
                            "hang=timeout", "--on-crash", "crash=archive", "--retry-max", "sh=9")
        self.assertEqual(result.returncode, EXIT_TASKS_FAILED, result.stderr)
        found = {kind: self.task(kind) for kind in ("own", "other", "hang", "crash", "sh")}
        self.assertEqual({kind: task["state"] for kind, task in found.items()},
                         {"own": "archived", "other": "retry", "hang": "archived",
                          "crash": "archived", "sh": "retry"})
        self.assertIn('class "dns" is not retried', found["own"]["error"])
        self.assertIn("SIGABRT", found["crash"]["error"])

    def test_children_are_replaced(self):
        self.compile(LEAK)
        for options, size, runs in ((("--child-runs", "2"), "1", 2),
                                    (("--child-rss", "200M"), str(300 << 20), 1), ((), "1", 6)):
            with self.subTest(options=options):
                tasks = [self.enqueue("leak", size, "--retention", "1h") for _ in range(6)]
                self.ok("work", "--until-idle", "--handlers", "handlers.so", "--concurrency", "1",
                        *options)
                pids = [self.ok("task", "inspect", task, "--result") for task in tasks]
                self.assertEqual(len(set(pids)), 6 // runs, pids)

    def test_early_acks_of_a_handler(self):
        self.compile(POLICIES)
        self.enqueue("crash", "--id", "c")
        result = self.quern("work", "--until-idle", "--handlers", "handlers.so", "--ack",
                            "crash=early")
        self.assertIn("run crashed", result.stderr)
        self.assertEqual(self.state("c"), "gone")

    def test_options_of_patterns_that_nobody_serves_are_refused(self):
        self.example()
        for words in (("--timeout", "hello=1s"), ("--timeout", "greet=soon"),
                      ("--retry-max", "greet=26"), ("--no-retry-on", "two words"),
                      ("--no-retry-on", "a", "--only-retry", "b"),
                      ("--no-retry-on", "a", "--only-retry", "greet=b")):
            said = self.fails(EXIT_USAGE, "work", "--drain", "--handlers", "handlers.so", *words)
            self.assertIn(words[0] if len(words) == 2 else "exclude each other", said)
            self.assertNotIn("internal", said)

    def run_one(self, task_id):
        self.enqueue("t", "--id", task_id, "--retention", "1h")
        self.wait_state(task_id, "completed")
        return self.ok("task", "inspect", task_id, "--result")

    def reload(self, worker, count):
        worker.send_signal(signal.SIGHUP)
        self.until(lambda: self.story().count("handlers reloaded") +
                   self.story().count("handlers not reloaded") == count, "it has reloaded")

    def test_children_get_no_rights_where_that_is_wanted(self):
        self.compile(CONSTRUCTOR % "")
        for options, value in (((), "0"), (("--no-new-privs",), "1")):
            task = self.enqueue("look", "--retention", "1h")
            self.ok("work", "--until-idle", "--handlers", "handlers.so", *options)
            self.assertEqual(self.ok("task", "inspect", task, "--result"), value)

    def test_an_object_that_closes_what_is_not_its_own_is_named(self):
        for first in (0, 3):
            self.compile(CONSTRUCTOR % f"for (int fd = {first}; fd < 1024; fd++) close(fd);")
            said = self.fails(EXIT_CONFIG, "work", "--handlers", "handlers.so", "--drain")
            self.assertIn("handlers.so: while it is loaded it closes descriptors", said)

    def load_what_forks(self):
        """A worker whose object has started processes; gives it, and their ids."""
        self.write("pids", "")
        worker = self.start("work", "--handlers", "./handlers.so", "--concurrency", "1")
        self.wait_state(self.enqueue("look"), "gone")
        pids = [int(word) for word in self.read("pids").split()]
        self.assertEqual(len(pids), 3)
        self.assertTrue(all(is_alive(pid) for pid in pids), pids)
        return worker, pids

    def all_end(self, pids):
        self.until(lambda: not any(is_alive(pid) for pid in pids), "all have ended")

    def test_what_an_object_starts_when_it_is_loaded_ends_with_the_worker(self):
        self.compile(CONSTRUCTOR % FORKS)
        for how in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(how=how):
                worker, pids = self.load_what_forks()
                worker.send_signal(how)
                worker.wait()
                self.all_end(pids)

    def test_an_object_that_hangs_at_its_end_ends_with_the_worker(self):
        """After the 8 s that a zygote has for its end."""
        self.compile(CONSTRUCTOR % HANGS)
        worker = self.start("work", "--handlers", "./handlers.so", "--concurrency", "1")
        self.wait_state(self.enqueue("look"), "gone")
        [warden] = children(worker.pid)
        [zygote] = children(warden)
        self.assertEqual(self.stop(worker), 0)
        self.all_end([warden, zygote])

    def test_what_an_object_starts_when_it_is_loaded_ends_with_its_zygote(self):
        self.compile(CONSTRUCTOR % FORKS)
        for victim in ("quern-zygote", "quern-warden"):
            with self.subTest(victim=victim):
                worker, pids = self.load_what_forks()
                [warden] = children(worker.pid)
                above = {comm(pid): pid for pid in [warden, *children(warden)]}
                os.kill(above[victim], signal.SIGKILL)
                self.assertEqual(self.end(worker), EXIT_FAILURE)
                self.assertIn("nothing can run any more", self.story())
                self.all_end([*pids, *above.values()])

    def test_hup_loads_the_handlers_again(self):
        self.compile(VERSION % ("one", "t"))
        worker = self.start("work", "--handlers", "./handlers.so", "--concurrency", "2")
        self.assertEqual(self.run_one("a"), "one")
        self.compile(VERSION % ("two", "t"))
        self.reload(worker, 1)
        self.until(lambda: self.run_one(f"b{len(self.json('task', 'list'))}") == "two",
                   "children of the new zygote run tasks")
        self.write("handlers.so.new", "no library\n")
        os.rename(self.path("handlers.so.new"), self.path("handlers.so"))
        self.reload(worker, 2)
        self.assertIn("the old ones stay", self.story())
        self.assertIn("not a shared object", self.story())
        self.assertEqual(self.run_one("c"), "two")
        self.assertEqual(self.stop(worker), 0)

    def test_hup_drains_where_that_is_wanted(self):
        self.compile(VERSION % ("one", "t"))
        worker = self.start("work", "--handlers", "./handlers.so", "--on-hup", "drain")
        self.assertEqual(self.run_one("a"), "one")
        self.assertEqual(self.stop(worker, signal.SIGHUP), 0)


if __name__ == "__main__":
    lib_cli.main()
