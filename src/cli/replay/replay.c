/* SPDX-License-Identifier: MIT */
/* replay.c - `quern task replay`: one run of a saved task.
 *
 * Happy path: the task is stored in a scratch broker; a worker in a process of its own, see
 * replay_run.c, with a debugger in front of it if wanted, runs it once with our terminal; what
 * became of it is read from the scratch broker. So the process may die: then the task is still
 * active there, and the end of the process is the outcome. Signals: INT and QUIT of the terminal go
 * to that process, TERM and HUP are passed on; we end when it has ended, after the scratch broker
 * is removed. */
#include "cli/replay/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/memory.h"
#include "cli/output/field.h"
#include "cli/output/json.h"
#include "cli/replay/debugger.h"
#include "cli/replay/scratch.h"
#include "cli/replay/task_file.h"

extern char **environ;

enum option { OPTION_EXEC, OPTION_HANDLERS, OPTION_UNDER };
const struct qn_option qn_replay_options[QN_REPLAY_OPTION_COUNT] = {
    [OPTION_EXEC] = {"exec", "COMMAND", "run it by /bin/sh -c, as quern work does", QN_OPTION_TEXT},
    [OPTION_HANDLERS] = {"handlers", "FILE", "run it by the handlers of this shared object",
                         QN_OPTION_TEXT},
    [OPTION_UNDER] = {"under", "DEBUGGER", "gdb, valgrind or rr; without a timeout",
                      QN_OPTION_TEXT},
};

/* --- The process ------------------------------------------------------------------------ */

static void on_terminal(int number)
{
    (void)number; /* the process has got it, too */
}

/* A handler, not SIG_IGN, which the process would inherit. */
static void install(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* Passes on the signals that end us, which are blocked, as is SIGCHLD. *ret_status: as of
 * waitpid. */
static void await_process(pid_t pid, const sigset_t *signals, int *ret_status)
{
    while (waitpid(pid, ret_status, WNOHANG) == 0) {
        int number = sigwaitinfo(signals, NULL);
        if (number == SIGTERM || number == SIGHUP) {
            (void)kill(pid, number); /* it is not reaped: the number is still its own */
        }
    }
}

/* Its data go to stderr where stdout is for our document. *ret_status: as of waitpid. */
static int run_process(const struct qn_cli *cli, char *const words[], int *ret_status)
{
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    sigset_t signals;
    sigset_t before;
    posix_spawnattr_t attributes;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    if (cli->json) {
        (void)posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    }
    install(SIGINT, on_terminal);
    install(SIGQUIT, on_terminal);
    install(SIGCHLD, SIG_DFL); /* ignored, it would throw the status away */
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &signals, &before);
    (void)posix_spawnattr_setsigmask(&attributes, &before);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int failed = posix_spawnp(&pid, words[0], &actions, &attributes, words, environ);
    if (failed == 0) {
        await_process(pid, &signals, ret_status);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        qn_cli_message(cli, "%s: %s", words[0], strerror(failed));
    }
    return failed == 0 ? QN_EXIT_OK : QN_EXIT_FAILURE;
}

/* --- The outcome ------------------------------------------------------------------------ */

struct ending {
    const char *outcome;
    const char *error;
    char text[160]; /* room for error */
    int exit_code;
};

static const char *signal_name(int status)
{
    const char *name = sigabbrev_np(WTERMSIG(status));
    return name != NULL ? name : "?";
}

static void describe_death(int status, enum qn_debugger debugger, struct ending *ending)
{
    ending->outcome = "crashed";
    ending->exit_code = QN_EXIT_TASKS_FAILED;
    ending->error = ending->text;
    if (debugger != QN_DEBUGGER_NONE && !WIFSIGNALED(status)) {
        (void)snprintf(ending->text, sizeof ending->text, "the run has not ended");
    } else if (WIFSIGNALED(status)) {
        (void)snprintf(ending->text, sizeof ending->text, "killed by signal %d (SIG%s)%s",
                       WTERMSIG(status), signal_name(status),
                       WCOREDUMP(status) ? ", core dumped" : "");
    } else {
        (void)snprintf(ending->text, sizeof ending->text,
                       "the process of its handler ended with exit status %d", WEXITSTATUS(status));
    }
}

/* Whether anything shows that a run of it has ended. */
static bool has_run(const struct qn_task_file *file, const quern_task_info *info)
{
    int64_t retry_max = quern_task_info_retry_max(info);
    retry_max = retry_max > 0 ? retry_max : 0;
    int64_t retry_count = file->retry_count < retry_max ? file->retry_count : retry_max;
    return quern_task_info_state(info) != QUERN_TASK_PENDING ||
           quern_task_info_retry_count(info) != retry_count ||
           quern_task_info_crash_count(info) > 0 ||
           (int32_t)quern_task_info_cause(info) != file->cause;
}

/* Of a task that waits. */
static void describe_wait(const struct qn_task_file *file, const quern_task_info *info,
                          struct ending *ending)
{
    ending->exit_code = QN_EXIT_FAILURE;
    if (!has_run(file, info)) {
        ending->outcome = "the task was not run";
    } else if (quern_task_info_cause(info) == QUERN_CAUSE_GIVEN_BACK) {
        ending->outcome = "the run was interrupted";
    } else if (quern_task_info_cause(info) == QUERN_CAUSE_SNOOZE) {
        ending->outcome = "snoozed";
        ending->exit_code = QN_EXIT_OK;
    } else {
        bool crashed = quern_task_info_cause(info) == QUERN_CAUSE_CHILD_DIED;
        ending->outcome = crashed ? "crashed" : "to be retried";
        ending->exit_code = QN_EXIT_TASKS_FAILED;
    }
}

/* info: of the task now; NULL: it is gone. */
static void find_ending(const struct qn_task_file *file, const quern_task_info *info, int status,
                        enum qn_debugger debugger, struct ending *ending)
{
    *ending = (struct ending){.outcome = "dropped", .error = "", .exit_code = QN_EXIT_OK};
    if (info == NULL) {
        return;
    }
    ending->error = quern_task_info_error(info);
    switch (quern_task_info_state(info)) {
    case QUERN_TASK_COMPLETED:
        ending->outcome = "done";
        return;
    case QUERN_TASK_ACTIVE:
        describe_death(status, debugger, ending);
        return;
    case QUERN_TASK_ARCHIVED:
        ending->outcome = "archived";
        ending->exit_code = QN_EXIT_TASKS_FAILED;
        return;
    case QUERN_TASK_PENDING:
    case QUERN_TASK_SCHEDULED:
    case QUERN_TASK_RETRY:
    case QUERN_TASK_AGGREGATING:
        describe_wait(file, info, ending);
        return;
    }
}

static int print_ending(const struct qn_cli *cli, const struct qn_scratch *scratch,
                        const quern_task_info *info, const struct ending *ending)
{
    size_t size = 0;
    const void *result = info != NULL ? quern_task_info_result(info, &size) : NULL;
    if (cli->json) {
        json_t *object = qn_memory_must(qn_json_task(info != NULL ? info : scratch->info));
        qn_json_set_text(object, "outcome", ending->outcome);
        qn_json_set_text(object, "error", ending->error);
        (void)qn_json_print(object);
        return ending->exit_code;
    }
    qn_field_text("id", quern_task_info_id(scratch->info));
    qn_field_text("outcome", ending->outcome);
    if (ending->error[0] != '\0') {
        qn_field_lines("error", ending->error);
    }
    if (info != NULL) {
        qn_field_moment("due at", quern_task_info_due_at_ms(info));
    }
    if (result != NULL) {
        qn_field_document("result", result, size);
    }
    return ending->exit_code;
}

/* status: of the process. */
static int show_outcome(const struct qn_cli *cli, const struct qn_task_file *file,
                        const struct qn_scratch *scratch, int status, enum qn_debugger debugger)
{
    quern_error err;
    quern_inspector *inspector = NULL;
    quern_task_info *info = NULL;
    quern_status found = quern_inspector_open(scratch->url, NULL, &inspector, &err);
    if (found == QUERN_OK) {
        found = quern_inspector_task(inspector, quern_task_info_queue(scratch->info),
                                     quern_task_info_id(scratch->info), &info, &err);
    }
    quern_inspector_free(inspector);
    if (found != QUERN_OK && found != QUERN_E_NOT_FOUND) {
        return qn_cli_fail(cli, &err);
    }
    struct ending ending;
    find_ending(file, info, status, debugger, &ending);
    int exit_code = ending.exit_code;
    if (exit_code != QN_EXIT_FAILURE) {
        exit_code = print_ending(cli, scratch, info, &ending);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0 && debugger == QN_DEBUGGER_NONE) {
        exit_code = WEXITSTATUS(status); /* and it has said why */
    } else if (WIFSIGNALED(status) && debugger == QN_DEBUGGER_NONE) {
        qn_cli_message(cli, "%s: its process was killed by signal %d (SIG%s)", ending.outcome,
                       WTERMSIG(status), signal_name(status));
    } else {
        qn_cli_message(cli, "%s", ending.outcome);
    }
    quern_task_info_free(info);
    return exit_code;
}

/* --- The verb --------------------------------------------------------------------------- */

static void report_start(const struct qn_cli *cli, const struct qn_task_file *file,
                         const struct qn_scratch *scratch, enum qn_debugger debugger)
{
    const quern_task_info *info = scratch->info;
    size_t size = 0;
    (void)quern_task_info_payload(info, &size);
    qn_cli_message(cli, "type %s, queue %s, %" PRId64 " retries so far, payload of %zu bytes",
                   quern_task_info_type(info), quern_task_info_queue(info), file->retry_count,
                   size);
    if (debugger == QN_DEBUGGER_GDB) {
        qn_cli_message(cli, "in gdb: set breakpoints, then run; no timeout applies");
    }
}

static int replay_file(const struct qn_cli *cli, const struct qn_task_file *file,
                       enum qn_debugger debugger)
{
    char *words[QN_DEBUGGER_WORD_MAX] = {NULL};
    struct qn_scratch scratch = {.folder = ""};
    struct qn_arena arena = {NULL, 0};
    int status = 0;
    int exit_code = qn_scratch_make(cli, file, debugger == QN_DEBUGGER_NONE, &scratch);
    if (exit_code == QN_EXIT_OK) {
        const struct qn_replay_target target = {
            .command = qn_args_text(&cli->args, OPTION_EXEC),
            .handlers = qn_args_text(&cli->args, OPTION_HANDLERS),
            .queue = quern_task_info_queue(scratch.info),
            .folder = scratch.folder,
        };
        report_start(cli, file, &scratch, debugger);
        qn_debugger_words(debugger, &target, &arena, words);
        /* What the handler enqueues by the program belongs to the scratch broker, too. */
        if (setenv("QUERN_BROKER", scratch.url, 1) != 0) {
            qn_memory_exhausted();
        }
        (void)unsetenv("QUERN_CONTEXT"); /* which excludes it */
        exit_code = run_process(cli, words, &status);
    }
    if (exit_code == QN_EXIT_OK) {
        if (debugger == QN_DEBUGGER_VALGRIND) {
            qn_debugger_show_files(cli, scratch.folder);
        }
        exit_code = show_outcome(cli, file, &scratch, status, debugger);
    }
    qn_scratch_remove(&scratch);
    qn_arena_finish(&arena);
    return exit_code;
}

int qn_replay(struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    const char *path = qn_args_operand(args, 0);
    enum qn_debugger debugger = QN_DEBUGGER_NONE;
    struct qn_task_file file;
    if (qn_args_given(args, OPTION_EXEC) == qn_args_given(args, OPTION_HANDLERS)) {
        return qn_cli_usage(cli, "give either --exec COMMAND or --handlers FILE");
    }
    int exit_code = qn_debugger_find(cli, qn_args_text(args, OPTION_UNDER), &debugger);
    if (exit_code == QN_EXIT_OK && debugger == QN_DEBUGGER_GDB && strcmp(path, "-") == 0) {
        return qn_cli_usage(cli, "gdb reads standard input: the task must come from a file");
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = qn_task_file_read(cli, path, &file);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = replay_file(cli, &file, debugger);
        qn_task_file_finish(&file);
    }
    return exit_code;
}
