#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern task save and replay: one run of a saved task, with commands and with C handlers, in a
debugger, too."""

import json
import os
import shutil
import subprocess
import unittest

import lib_cli
from lib_cli import (CliTest, EXIT_DATA, EXIT_FAILURE, EXIT_TASKS_FAILED, EXIT_USAGE)

SOURCE = os.environ["QUERN_SOURCE"]
SANITIZED = "-fsanitize" in os.environ.get("CFLAGS", "")

CRASH = """
#include <stdio.h>
int main(void)
{
    char text[64] = "";
    if (fgets(text, sizeof text, stdin) != NULL && text[0] == 'c') {
        *(volatile int *)NULL = 1;
    }
    puts(text);
    return 0;
}
"""

HANDLERS = """
#include <stdio.h>
#include <stdlib.h>
#include <quern/handlers.h>
static quern_outcome show(quern_run *run, const quern_task *task, void *user)
{
    char text[256];
    int size = snprintf(text, sizeof text, "%s %s %lld %d %s %s=%s %zu",
                        quern_run_task_id(run), quern_run_queue(run),
                        (long long)quern_run_retry_count(run), (int)quern_run_cause(run),
                        task->type, task->headers[0].name, task->headers[0].value,
                        task->payload_size);
    (void)user;
    return quern_run_write_result(run, text, (size_t)size, NULL) == QUERN_OK ? QUERN_DONE
                                                                             : QUERN_RETRY;
}
static quern_outcome die(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)user;
    _exit(task->payload_size == 0 ? 7 : 8);
}
static quern_outcome snooze(quern_run *run, const quern_task *task, void *user)
{
    (void)task;
    (void)user;
    return quern_run_again_in(run, 60000);
}
static quern_outcome drop(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)task;
    (void)user;
    return QUERN_DROP;
}
QUERN_HANDLERS(mux, err)
{
    static const struct {
        const char *pattern;
        quern_handler handler;
    } all[] = {{"show", show}, {"die", die}, {"snooze", snooze}, {"drop", drop}};
    quern_status status = QUERN_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == QUERN_OK; i++) {
        status = quern_mux_handle(mux, all[i].pattern, all[i].handler, NULL, NULL, err);
    }
    return status;
}
"""


class ReplayTest(CliTest):
    def setUp(self):
        super().setUp()
        self.env["TMPDIR"] = self.path("tmp")
        os.mkdir(self.env["TMPDIR"])

    def tearDown(self):
        self.assertEqual(os.listdir(self.env["TMPDIR"]), [], "a scratch broker was left")
        super().tearDown()

    def compile(self, text, name, *flags):
        source = self.write(name + ".c", text)
        result = subprocess.run([os.environ["CC"], "-g", "-D_GNU_SOURCE", *flags,
                                 "-I" + os.path.join(SOURCE, "include"), "-o", self.path(name),
                                 source], capture_output=True, check=False, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.path(name)

    def handlers(self, text=HANDLERS, name="handlers.so"):
        return self.compile(text, name, "-shared", "-fPIC")

    def save(self, *args, **kwargs):
        """Enqueues a task, and saves it; the name of the file."""
        name = self.path("t.task")
        self.write(name, self.ok("task", "save", self.enqueue(*args, **kwargs)) + "\n")
        return name

    def replay(self, code, *args, **kwargs):
        result = self.quern("--json", "task", "replay", *args, **kwargs)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    # --- save ------------------------------------------------------------------------------

    def test_save_prints_one_line_that_can_be_enqueued_again(self):
        args = ["--id", "a", "--queue", "mail", "--retry-max", "3", "--timeout", "1500ms",
                "--retention", "1h", "--header", "k=v", "--limit-key", "ann", "--deadline",
                "2126-01-01T00:00:00Z"]
        line = self.read(self.save("hi", 'a\nb"', *args))
        self.assertEqual(line.count("\n"), 1)
        saved = json.loads(line)
        del saved["saved"]
        self.assertEqual(saved, {
            "type": "hi", "payload": 'a\nb"', "queue": "mail", "id": "a", "retry_max": 3,
            "timeout": 1.5, "retention": 3600, "headers": {"k": "v"}, "limit_key": "ann",
            "deadline": 4922899200})
        before = self.task("a")
        self.ok("task", "delete", "a")
        self.ok("enqueue", "--from", self.path("t.task"))
        after = self.task("a")
        for name in ("payload", "headers", "timeout_ms", "deadline_at_ms", "retry_max",
                     "retention_ms", "limit_key", "queue", "state"):
            self.assertEqual(before[name], after[name], name)

    def test_save_keeps_the_history_of_a_task(self):
        self.enqueue("t", "--id", "a", "--timeout", "never", "--retry-max", "never")
        self.drain("t=exit 3")
        saved = json.loads(self.ok("task", "save", "a"))
        self.assertEqual((saved["timeout"], saved["retry_max"]), (-1, -1))
        self.assertEqual(saved["saved"]["state"], "archived")
        self.assertIn("exit status 3", saved["saved"]["error"])

    def test_save_of_a_task_that_is_not_there_fails(self):
        self.ok("db", "init")
        self.assertIn("none", self.fails(EXIT_FAILURE, "task", "save", "none"))

    # --- commands --------------------------------------------------------------------------

    def test_command_gets_the_task_as_it_was(self):
        name = self.save("t", "x", "--id", "a", "--queue", "mail", "--header", "who=ann")
        self.quern("work", "--until-idle", "--queue", "mail", "--exec", "t=exit 75")
        self.write(name, self.ok("task", "save", "a"))
        before = self.task("a")
        command = ('cat; echo " $QUERN_TASK_ID $QUERN_QUEUE $QUERN_RETRY_COUNT $QUERN_CAUSE'
                   ' $QUERN_HEADER_WHO"; echo noise >&2')
        result = self.quern("task", "replay", name, "--exec", command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^outcome: +done$")
        self.assertIn("x a mail 1 retry ann", result.stdout)
        self.assertIn("noise", result.stderr)
        self.assertEqual(self.task("a"), before, "the real broker was changed")

    def test_payload_is_exact(self):
        payload = 'a\0b\u00e9"\\\n'
        name = self.save("t", "-", stdin=payload)
        self.assertEqual(self.replay(0, name, "--exec", "cat")["result"], payload)
        self.write("raw.task", '{"type": "t", "payload_base64": "/wAB"}')
        self.assertEqual(self.replay(0, "raw.task", "--exec", "cat")["result_base64"], "/wAB")

    def test_exit_codes_are_outcomes(self):
        name = self.save("t", "x", "--id", "a")
        for command, code, outcome, error in (
                ("true", 0, "done", ""), ("echo why >&2; exit 3", 3, "to be retried",
                                          "exit status 3: why"),
                ("exit 65", 3, "archived", "exit status 65"),
                ("kill -SEGV $$", 3, "crashed", "killed by signal 11 (SIGSEGV)")):
            with self.subTest(command=command):
                self.write("runs", "")
                shown = self.replay(code, name, "--exec", "echo >>runs; " + command)
                self.assertEqual(shown["outcome"], outcome)
                self.assertEqual(shown["error"].split("; CPU ")[0], error)
                self.assertEqual(self.read("runs"), "\n", "it ran not exactly once")

    def test_continue_signal_starts_no_second_run(self):
        """A debugger sends SIGCONT to each process that it leaves."""
        name = self.save("t", "x", "--id", "a")
        self.write("runs", "")
        shown = self.replay(3, name, "--exec", "echo >>runs; set -- $(cat /proc/$PPID/stat);"
                            " kill -CONT $4; kill -SEGV $$")
        self.assertEqual(shown["outcome"], "crashed")
        self.assertEqual(self.read("runs"), "\n", "it ran not exactly once")
        self.assertEqual(shown["crash_count"], 0, "its worker was no longer quiet")

    def test_moments_and_locks_of_the_past_do_not_matter(self):
        self.write("t.task", json.dumps({
            "type": "t", "id": "a", "deadline": 1, "process_at": 4922899200, "start_within": 1,
            "group": "g", "unique": 60, "unique_key": "u"}))
        self.assertEqual(self.replay(0, "t.task", "--exec", "true")["outcome"], "done")
        text = self.quern("task", "replay", "t.task", "--exec", "true").stderr
        self.assertIn("its deadline is over, and is left out", text)

    def test_tasks_that_the_command_enqueues_stay_in_the_scratch_broker(self):
        name = self.save("t", "--id", "a")
        self.replay(0, name, "--exec", f"'{self.program}' enqueue follow --id b")
        self.assertEqual(self.state("b"), "gone")

    def test_terminate_ends_it_and_removes_the_scratch_broker(self):
        self.fifo("started")
        name = self.save("t", "--id", "a")
        process = self.start("task", "replay", name, "--exec", "echo >started; exec sleep 60")
        self.read("started")  # waits until the command has opened it
        self.assertEqual(self.stop(process), EXIT_FAILURE)
        self.assertIn("the run was interrupted", self.story())

    # --- wrong files -----------------------------------------------------------------------

    def test_wrong_files_are_explained(self):
        line = '{"type": "t"}\n'
        for text, why in ((line + line, "holds more than one task"), ("", "holds no task"),
                          ("\n \n", "holds no task"), ("hello\n", "not JSON"),
                          ('{"type": 1}\n', '"type" is not a string'), ("[]\n", "JSON object"),
                          ('{"type": "t", "state": "retry"}\n', 'unknown key "state"'),
                          ('{"type": "t", "payload_base64": "?"}\n', "base64"),
                          ('{"type": "t", "saved": 1}\n', '"saved" is not an object')):
            with self.subTest(text=text):
                self.write("t.task", text)
                said = self.fails(EXIT_DATA, "task", "replay", "t.task", "--exec", "true")
                self.assertIn("t.task: ", said)
                self.assertIn(why, said)
        self.assertIn("none.task: No such file",
                      self.fails(EXIT_FAILURE, "task", "replay", "none.task", "--exec", "true"))
        self.ok("task", "replay", "-", "--exec", "true", stdin="\n" + line + "\n")
        self.write("t.task", '{"type": "a\\u0007b"}')
        self.fails(EXIT_DATA, "task", "replay", "t.task", "--exec", "true")

    def test_wrong_options_are_explained(self):
        name = self.save("t")
        for args in ((), ("--exec", "true", "--handlers", "x.so")):
            self.assertIn("either --exec COMMAND or --handlers FILE",
                          self.fails(EXIT_USAGE, "task", "replay", name, *args))
        self.assertIn("'lldb' is not gdb, valgrind or rr",
                      self.fails(EXIT_USAGE, "task", "replay", name, "--exec", "true", "--under",
                                 "lldb"))
        said = self.fails(EXIT_FAILURE, "task", "replay", name, "--exec", "true", "--under", "rr",
                          env={"PATH": self.home})
        self.assertIn("rr is not installed", said)
        self.assertIn("gdb reads standard input",
                      self.fails(EXIT_USAGE, "task", "replay", "-", "--exec", "true", "--under",
                                 "gdb") if shutil.which("gdb") else "gdb reads standard input")

    # --- handlers --------------------------------------------------------------------------

    def test_handlers_get_the_task_as_it_was(self):
        library = self.handlers()
        self.write("t.task", json.dumps({
            "type": "show", "id": "a", "queue": "mail", "payload": "12345", "retry_max": 2,
            "headers": {"k": "v"}, "saved": {"retry_count": 2, "cause": "lease expired"}}))
        shown = self.replay(0, "t.task", "--handlers", library)
        self.assertEqual(shown["result"], "a mail 2 4 show k=v 5")
        self.replay(0, "t.task", "--handlers", "handlers.so")  # of the working directory

    def test_the_example_runs(self):
        with open(os.path.join(SOURCE, "examples/handlers.c"), encoding="utf-8") as file:
            library = self.handlers(file.read())
        self.write("t.task", '{"type": "greet", "payload": "World"}')
        self.assertEqual(self.replay(0, "t.task", "--handlers", library)["result"],
                         "hello, World")
        self.write("t.task", '{"type": "divide", "payload": "1 0"}')
        self.assertEqual(self.replay(3, "t.task", "--handlers", library)["outcome"], "crashed")

    def test_outcomes_of_handlers(self):
        library = self.handlers()
        for kind, code, outcome, error in (
                ("die", 3, "crashed", "the process of its handler ended with exit status 7"),
                ("snooze", 0, "snoozed", ""), ("drop", 0, "dropped", ""),
                ("other", 3, "archived", 'handler not found for task "other"')):
            with self.subTest(kind=kind):
                self.write("t.task", json.dumps({"type": kind, "id": "a"}))
                shown = self.replay(code, "t.task", "--handlers", library)
                self.assertEqual((shown["outcome"], shown["error"]), (outcome, error))

    def test_wrong_libraries_are_explained(self):
        self.write("t.task", '{"type": "show"}')
        own = "#include <quern/handlers.h>\n"
        self.write("text.so", "no library\n")
        self.write("short.so", "")
        for name, text, why in (
                ("none.so", None, "./none.so: No such file"),
                ("text.so", None, "./text.so: not a shared object"),
                ("short.so", None, "./short.so: not a shared object"),
                ("a.so", own + "int x;\n", "no function quern_handlers"),
                ("b.so", "int missing(void); int quern_handlers(void);\n"
                         "int quern_handlers(void) { return missing(); }\n",
                 "undefined symbol: missing"),
                ("c.so", own + "quern_status quern_handlers(quern_mux *mux, quern_error *err)\n"
                               "{ (void)mux; (void)err; return QUERN_OK; }\n",
                 "no quern_handlers_version"),
                ("d.so", own + "const int quern_handlers_version = 99002001;\n"
                               "quern_status quern_handlers(quern_mux *mux, quern_error *err)\n"
                               "{ (void)mux; (void)err; return QUERN_OK; }\n",
                 "compiled for quern 99.2.1"),
                ("e.so", own + "QUERN_HANDLERS(mux, err)\n{ (void)mux; (void)err;\n"
                               "return QUERN_E_DENIED; }\n", "quern_handlers: denied"),
                ("f.so", own + "QUERN_HANDLERS(mux, err)\n{\n"
                               "return quern_mux_handle(mux, \"\", 0, 0, 0, err); }\n",
                 "quern_handlers: invalid: handler")):
            with self.subTest(name=name):
                if text is not None:
                    self.handlers(text, name)
                said = self.fails(EXIT_FAILURE, "task", "replay", "t.task", "--handlers", name)
                self.assertIn(why, said)

    # --- debuggers -------------------------------------------------------------------------

    def under(self, name):
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not installed")
        self.env["ASAN_OPTIONS"] = "detect_leaks=0"  # it cannot be traced twice
        self.env["DEBUGINFOD_URLS"] = ""
        return ("--under", name)

    def test_gdb_stops_where_a_command_crashes(self):
        debugger = self.under("gdb")
        self.compile(CRASH, "crash")
        name = self.save("t", "c", "--id", "a", "--timeout", "1ms")
        result = self.quern("task", "replay", name, "--exec", "exec ./crash", *debugger,
                            stdin="run\nprint text\nkill\n")
        self.assertIn("SIGSEGV", result.stdout, result.stderr)
        self.assertIn('$1 = "c"', result.stdout)
        self.assertEqual(result.returncode, EXIT_TASKS_FAILED)

    def test_gdb_stops_at_a_handler(self):
        debugger = self.under("gdb")
        library = self.handlers()
        self.write("t.task", '{"type": "show", "id": "a", "headers": {"k": "v"}}')
        args = ("task", "replay", "t.task", "--handlers", library, *debugger)
        result = self.quern(*args, stdin="break show\nrun\nprint *task->type@5\ncontinue\n")
        self.assertIn('"show"', result.stdout, result.stderr)
        self.assertRegex(result.stdout, r"(?m)outcome: +done$")
        self.assertEqual(result.returncode, 0)
        result = self.quern(*args, stdin="break show\nrun\nkill\n")
        self.assertIn("the run has not ended", result.stdout)
        self.assertEqual(result.returncode, EXIT_TASKS_FAILED)
        result = self.quern(*args, stdin="quit\n")
        self.assertIn("the task was not run", result.stderr)
        self.assertEqual(result.returncode, EXIT_FAILURE)

    def test_object_that_dies_or_hangs_as_it_is_loaded(self):
        self.write("t.task", '{"type": "t", "id": "a"}')
        head = "#include <stdio.h>\n#include <stdlib.h>\n#include <quern/handlers.h>\n"
        for name, act in (("die", "abort();"),
                          ("hang", 'fclose(fopen("loading", "w")); for (;;) { pause(); }')):
            self.handlers(head + "#include <unistd.h>\nQUERN_HANDLERS(mux, err)\n{ (void)mux;"
                          " (void)err; " + act + " return QUERN_OK; }\n", name + ".so")
        said = self.fails(EXIT_FAILURE, "task", "replay", "t.task", "--handlers", "./die.so")
        self.assertIn("was not run: its process was killed by signal 6 (SIGABRT)", said)
        process = self.start("task", "replay", "t.task", "--handlers", "./hang.so")
        self.until(lambda: os.path.exists(self.path("loading")), "it is loaded")
        self.assertEqual(self.stop(process), EXIT_FAILURE)
        self.assertIn("was not run: its process was killed by signal 15", self.story())

    def test_valgrind_reports_the_errors_of_a_command(self):
        debugger = self.under("valgrind")
        self.compile(CRASH, "crash")
        name = self.save("t", "c", "--id", "a")
        result = self.quern("task", "replay", name, "--exec", "exec ./crash 'a'", *debugger)
        self.assertIn("Invalid write of size 4", result.stderr)
        self.assertIn("crash.c:7", result.stderr)
        self.assertEqual(result.returncode, EXIT_TASKS_FAILED)
        self.write("t.task", '{"type": "t", "payload": "x"}')
        result = self.quern("task", "replay", "t.task", "--exec", "./crash 'a'", *debugger)
        self.assertIn("valgrind reports no errors", result.stderr)
        self.assertEqual(result.returncode, 0)

    @unittest.skipIf(SANITIZED, "valgrind does not run programs with sanitizers")
    def test_valgrind_runs_a_handler(self):
        debugger = self.under("valgrind")
        library = self.handlers()
        self.write("t.task", '{"type": "show", "id": "a", "headers": {"k": "v"}}')
        result = self.quern("task", "replay", "t.task", "--handlers", library, *debugger)
        self.assertIn("ERROR SUMMARY: 0 errors", result.stderr)
        self.assertEqual(result.returncode, 0)

    def test_rr_records_the_process_that_runs_the_task(self):
        """rr needs counters of the processor that few virtual machines have: here it only notes its
        words, and executes them."""
        self.write("rr", '#!/bin/sh\necho "$*" >>"$HOME/words"\nshift\nexec "$@"\n')
        os.chmod(self.path("rr"), 0o755)
        self.env["PATH"] = self.home + ":" + self.env["PATH"]
        self.write("t.task", '{"type": "show", "id": "a", "headers": {"k": "v"}}')
        self.replay(0, "t.task", "--exec", "echo 'it'", "--under", "rr")
        self.assertEqual(self.read("words"), "record /bin/sh -c echo 'it'\n")
        self.replay(0, "t.task", "--handlers", self.handlers(), "--under", "rr")
        self.assertIn(" internal replay ", self.read("words"))


if __name__ == "__main__":
    lib_cli.main()
