# SPDX-License-Identifier: MIT
"""Workers with C handlers that run until the test lets them end, and note that they did."""

import os
import signal
import subprocess

from lib_cli import CliTest

SOURCE = os.environ["QUERN_SOURCE"]
HANDLERS = """
#include <quern/handlers.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void note(const char *file, const char *text)
{
    char line[256];
    int size = snprintf(line, sizeof line, "%s %d\\n", text, (int)getppid());
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)!write(fd, line, (size_t)size);
    close(fd);
}
/* Until the file of its payload is there; its own note is the proof that it ran to its end. user:
 * not NULL: it is acked early, and can store no result. */
static quern_outcome hold(quern_run *run, const quern_task *task, void *user)
{
    char file[64] = "";
    memcpy(file, task->payload, task->payload_size);
    note("started", task->id);
    fprintf(stderr, "held %s\\n", task->id);
    while (access(file, F_OK) != 0 && !quern_run_cancelled(run)) {
        usleep(2000);
    }
    if (quern_run_cancelled(run)) {
        return quern_run_fail(run, QUERN_ARCHIVE, "%s", quern_run_cancel_reason(run));
    }
    if (user == NULL &&
        quern_run_write_result(run, task->id, strlen(task->id), NULL) != QUERN_OK) {
        return QUERN_RETRY;
    }
    note("ended", task->id);
    return QUERN_DONE;
}
static quern_outcome die(quern_run *run, const quern_task *task, void *user)
{
    (void)hold(run, task, user);
    __builtin_trap();
}
static quern_outcome quick(quern_run *run, const quern_task *task, void *user)
{
    (void)run;
    (void)user;
    note("ran", task->id);
    return QUERN_DONE;
}
QUERN_HANDLERS(mux, err)
{
    const quern_handler_options few = {.concurrency = 2};
    const quern_handler_options early = {.ack = QUERN_ACK_EARLY};
    quern_status status = quern_mux_handle(mux, "die", die, NULL, NULL, err);
#ifndef WITHOUT_HOLD
    status = status == QUERN_OK ? quern_mux_handle(mux, "hold", hold, NULL, NULL, err) : status;
#endif
#ifdef WITH_EXTRA
    status = status == QUERN_OK ? quern_mux_handle(mux, "extra", quick, NULL, NULL, err) : status;
#endif
    status = status == QUERN_OK ? quern_mux_handle(mux, "few", hold, NULL, &few, err) : status;
    status = status == QUERN_OK ? quern_mux_handle(mux, "early", hold, "", &early, err) : status;
    return status == QUERN_OK ? quern_mux_handle(mux, "quick", quick, NULL, NULL, err) : status;
}
"""


class HoldTest(CliTest):
    objects = {}  # flags and text to what was compiled

    def setUp(self):
        super().setUp()
        self.compile()

    def compile(self, *flags, text=HANDLERS):
        """Each text once. Under another name first, since a worker may load it at this moment."""
        if (flags, text) not in self.objects:
            source = self.write("handlers.c", text)
            include = "-I" + os.path.join(SOURCE, "include")
            result = subprocess.run([os.environ["CC"], "-shared", "-fPIC", "-D_GNU_SOURCE", include,
                                     *flags, "-o", self.path("handlers.so.new"), source],
                                    capture_output=True, check=False, encoding="utf-8")
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(self.path("handlers.so.new"), "rb") as file:
                self.objects[flags, text] = file.read()
        with open(self.path("handlers.so.new"), "wb") as file:
            file.write(self.objects[flags, text])
        os.rename(self.path("handlers.so.new"), self.path("handlers.so"))

    def work(self, *args):
        worker = self.start("work", "--handlers", "./handlers.so", "--concurrency", "10", *args)
        self.until(lambda: "worker starts" in self.story(), "it runs")
        return worker

    def continued(self):
        return self.story().count("worker continues")

    def restart(self, worker):
        """Sends USR2, and waits until the next program runs."""
        before = self.continued()
        worker.send_signal(signal.SIGUSR2)
        self.until(lambda: self.continued() > before, "it continues")
        self.assertIsNone(worker.poll())

    def refuse(self, worker, why):
        before = self.story().count("goes on")
        worker.send_signal(signal.SIGUSR2)
        self.until(lambda: self.story().count("goes on") > before, "it refuses")
        self.assertIn(why, self.story())
        self.assertIsNone(worker.poll())

    def hold(self, *ids, kind="hold", file="go", options=()):
        for task_id in ids:
            self.enqueue(kind, file, "--id", task_id, "--retention", "1h", *options)
        self.until(lambda: all(task_id in self.notes("started") for task_id in ids), "they run")

    def notes(self, name):
        return [line.split()[0] for line in self.read(name).splitlines()]

    def check_ended_once(self, ids):
        for task_id in ids:
            task = self.wait_state(task_id, "completed")
            self.assert_ran_once(task)
            self.assertEqual(task["retry_count"] + task["crash_count"], 0, task)
            self.assertEqual(self.ok("task", "inspect", task_id, "--result"), task_id)
        self.assertEqual(sorted(self.notes("started")), sorted(ids))
        self.assertEqual(sorted(self.notes("ended")), sorted(ids))

    def run_quick(self, task_id):
        self.enqueue("quick", "--id", task_id)
        self.until(lambda: task_id in self.notes("ran"), "a new child runs it")

    def link(self):
        """The program under a name that the test can change."""
        program = self.program
        self.program = self.path("quern")
        os.symlink(program, self.program)
        return program

    def replace(self, text):
        self.write("quern.new", text)
        os.chmod(self.path("quern.new"), 0o700)
        os.rename(self.path("quern.new"), self.path("quern"))
