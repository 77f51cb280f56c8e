/* SPDX-License-Identifier: MIT */
/* restart.c - the program of a worker is replaced, in the same process.
 *
 * On a signal the new program is asked two questions before anything changes: which state it reads,
 * and whether it starts with this command line (it loads the handlers, too, and opens no broker).
 * An old program, or one that is damaged or missing, fails here. Then the worker comes to rest
 * (worker/hand_over), and its thread, which is the first one of the process, executes the program:
 * so the process stays the leader of its threads for all who watch it. */
#include "cli/work/restart.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/work/config/reconfigure.h"
#include "cli/work/probe/health.h"
#include "cli/work/signal.h"
#include "worker/hand_over/hand_over.h"

#define VARIABLE "QUERN_TAKE_OVER"
#define CHECK "check"
#define ANSWER "state "

enum { CHECK_MS = 15000, ANSWER_SIZE = 64, REASON_SIZE = 256 };

extern char **environ; /* NOLINT: POSIX wants it declared */

int qn_work_restart_print(struct qn_cli *cli)
{
    (void)cli;
    (void)printf(ANSWER "%u\n", (unsigned)QN_ESTATE_VERSION);
    return QN_EXIT_OK;
}

int qn_work_restart_take(struct qn_work *work, int take_state_fd)
{
    quern_error err;
    quern_status status = qn_estate_read(take_state_fd, &work->estate, &err);
    if (take_state_fd >= 0) {
        (void)close(take_state_fd);
    }
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(work->cli, &err);
}

int qn_work_restart_read(struct qn_work *work)
{
    const char *given = getenv(VARIABLE);
    char *end = NULL;
    if (given == NULL) {
        return QN_EXIT_OK;
    }
    work->only_checks = strcmp(given, CHECK) == 0;
    long fd = work->only_checks ? -1 : strtol(given, &end, 10);
    bool is_fd = !work->only_checks && end != given && *end == '\0' && fd >= 0 && fd <= INT32_MAX;
    (void)unsetenv(VARIABLE);
    if (work->only_checks) {
        return QN_EXIT_OK;
    }
    return qn_work_restart_take(work, is_fd ? (int)fd : -1);
}

/* --- The words and the environment of the next program -------------------------------------- */

/* Passwords in the words were starred out: the next program gets them as we did. Freed by
 * free_words. */
static char **make_words(const struct qn_cli *cli)
{
    const struct qn_args *args = &cli->args;
    size_t count = (size_t)args->argc;
    char **words = qn_memory_must(qn_alloc_zero(count + 1, sizeof(char *)));
    for (size_t i = 0; i < count; i++) {
        const char *word = args->argv[i];
        const char *secret = cli->given_word;
        bool has_it = secret != NULL && secret >= word && secret <= word + strlen(word);
        size_t before = has_it ? (size_t)(secret - word) : strlen(word);
        const char *rest = has_it ? cli->given_text : "";
        words[i] = qn_memory_must(qn_secret_alloc(before + strlen(rest) + 1));
        (void)memcpy(words[i], word, before);
        (void)memcpy(words[i] + before, rest, strlen(rest) + 1);
    }
    return words;
}

static void free_words(char **words)
{
    for (size_t i = 0; words[i] != NULL; i++) {
        qn_secret_free(words[i]);
    }
    qn_free(words);
}

/* The strings but the last are those of environ. */
static char **make_environment(char *own)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **all = qn_memory_must(qn_alloc_zero(count + 2, sizeof(char *)));
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], VARIABLE "=", strlen(VARIABLE) + 1) != 0) {
            all[used++] = environ[i];
        }
    }
    all[used] = own;
    return all;
}

/* --- The questions --------------------------------------------------------------------------- */

static void refuse(struct qn_work *work, const char *why)
{
    char text[REASON_SIZE + 64];
    (void)snprintf(text, sizeof text, "not restarted, the worker goes on: %s", why);
    qn_work_log_message(QUERN_LOG_WARN, text, &work->log);
}

/* A process that is asked. Its stderr is ours, its stdout a pipe. */
struct question {
    char *const *words;
    char *const *environment;
    char answer[ANSWER_SIZE];
    char why[REASON_SIZE]; /* there is no good answer */
};

static int spawn(const struct question *question, int stdout_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawnp(ret_pid, question->words[0], &actions, &attributes, question->words,
                             question->environment);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

/* Its exit code; -1: a signal, or it took too long and was killed. */
static int await(pid_t pid)
{
    int status = 0;
    int pid_fd = pidfd_open(pid, 0);
    struct pollfd ended = {.fd = pid_fd, .events = POLLIN};
    int count;
    do {
        count = poll(&ended, 1, CHECK_MS);
    } while (count < 0 && errno == EINTR);
    if (count == 0 || pid_fd < 0) {
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid_fd >= 0) {
        (void)close(pid_fd);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool ask(struct question *question)
{
    int fds[2];
    pid_t pid = 0;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        (void)snprintf(question->why, sizeof question->why, "no descriptor: %s", strerror(errno));
        return false;
    }
    int error = spawn(question, fds[1], &pid);
    (void)close(fds[1]);
    int exit_code = error == 0 ? await(pid) : -1;
    ssize_t size = read(fds[0], question->answer, sizeof question->answer - 1);
    question->answer[size > 0 ? size : 0] = '\0';
    (void)close(fds[0]);
    if (error != 0) {
        (void)snprintf(question->why, sizeof question->why, "%.128s: %s", question->words[0],
                       strerror(error));
    } else if (exit_code < 0) {
        (void)snprintf(question->why, sizeof question->why,
                       "the new program was killed, or did not answer");
    } else if (exit_code > 0) {
        (void)snprintf(question->why, sizeof question->why,
                       "the new program refuses, exit status %d", exit_code);
    }
    return exit_code == 0;
}

/* A program that does not know this verb would take the check for a start. */
static bool reads_our_state(char *program, char *why)
{
    char noun[] = "internal";
    char verb[] = "takes-over";
    char wanted[ANSWER_SIZE];
    char *const words[] = {program, noun, verb, NULL};
    struct question question = {.words = words, .environment = environ};
    (void)snprintf(wanted, sizeof wanted, ANSWER "%u\n", (unsigned)QN_ESTATE_VERSION);
    bool answers = ask(&question);
    if (answers && strcmp(question.answer, wanted) != 0) {
        (void)snprintf(question.why, sizeof question.why,
                       "the new program cannot read the state of this one");
        answers = false;
    }
    (void)snprintf(why, REASON_SIZE, "%s", question.why);
    return answers;
}

bool qn_work_restart_check(void *user)
{
    struct qn_work *work = user;
    char why[REASON_SIZE] = "";
    char variable[] = VARIABLE "=" CHECK;
    if (work->drain || work->until_idle) {
        refuse(work, "it ends when its work is done");
        return false;
    }
    if (!qn_work_reconfigure_may_restart(work)) {
        refuse(work, "the broker, or another of these values, has changed");
        return false;
    }
    char **words = make_words(work->cli);
    char **environment = make_environment(variable);
    struct question question = {.words = words, .environment = environment};
    bool can = reads_our_state(words[0], why);
    if (can && !ask(&question)) {
        (void)memcpy(why, question.why, sizeof why);
        can = false;
    }
    qn_free(environment);
    free_words(words);
    if (!can) {
        refuse(work, why);
    }
    return can;
}

void qn_work_restart_exec(struct qn_work *work, int state_fd)
{
    char why[REASON_SIZE];
    char variable[sizeof VARIABLE + 16];
    (void)snprintf(variable, sizeof variable, VARIABLE "=%d", state_fd);
    qn_work_health_pass_on(work, true);
    char **words = make_words(work->cli);
    char **environment = make_environment(variable);
    (void)fflush(stdout);
    (void)fflush(stderr);
    qn_work_signal_block();
    if (qn_estate_keep_open(state_fd, true)) {
        (void)execvpe(words[0], words, environment);
    }
    (void)snprintf(why, sizeof why, "%.128s: %s", words[0], strerror(errno));
    qn_work_health_pass_on(work, false);
    bool closes = qn_estate_keep_open(state_fd, false);
    (void)closes; /* it is read, and made so, once more */
    qn_free(environment);
    free_words(words);
    refuse(work, why);
}
