/* SPDX-License-Identifier: MIT */
/* spawn.c - a shell command with its pipes and its environment, started by a zygote or by a fork.
 *
 * With a launcher the zygote forks: see launcher.h. Without one this process does, although it has
 * threads: see spawn_fork.c. The caller sees no difference but in how a command is refused: the
 * zygote reports that, a fork of ours writes it to stderr behind a random mark. */
#include "pool/exec/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/random.h"
#include "pool/exec/launcher.h"
#include "pool/prefork/inside/oom.h"

enum { PROGRESS_FILENO = 3, FIRST_FREE_FD, KILLED_BY_SHELL = 128 + SIGKILL };

struct ends {
    int child; /* becomes 0, 1, 2 or 3 */
    int ours;
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* A program may have closed its stdin: then pipe() hands out 0, which the child would overwrite. */
static int move_up(int fd)
{
    if (fd < 0 || fd >= FIRST_FREE_FD) {
        return fd;
    }
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    (void)close(fd);
    return moved;
}

static quern_status open_pipe(struct ends *ends, bool child_reads, quern_error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no pipe for a command: %s", strerror(errno));
    }
    int reader = move_up(fds[0]);
    int writer = move_up(fds[1]);
    ends->child = child_reads ? reader : writer;
    ends->ours = child_reads ? writer : reader;
    if (reader < 0 || writer < 0) {
        return qn_error_set(err, QUERN_E_FULL, "no descriptor for a command: %s", strerror(errno));
    }
    int flags = fcntl(ends->ours, F_GETFL);
    if (flags < 0 || fcntl(ends->ours, F_SETFL, flags | O_NONBLOCK) != 0) {
        return qn_error_set(err, QUERN_E_FULL, "cannot set up a pipe: %s", strerror(errno));
    }
    return QUERN_OK;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length + 1) == 0;
}

static bool is_setting(const char *entry)
{
    return strchr(entry, '=') != NULL;
}

/* By a variable of its name, or removed by an entry without "=". */
static bool is_replaced(const char *variable, const char *const *environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        const char *entry = environment[i];
        if (is_setting(entry) ? same_name(variable, entry)
                              : strncmp(variable, entry, strlen(entry)) == 0) {
            return true;
        }
    }
    return false;
}

/* One block of pointers to borrowed strings; NULL when memory is out. */
static const char **merge_environment(const char *const *environment)
{
    size_t count = 0;
    for (size_t i = 0; environ != NULL && environ[i] != NULL; i++) {
        count++;
    }
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        count++;
    }
    const char **merged = qn_alloc_zero(count + 1, sizeof *merged);
    if (merged == NULL) {
        return NULL;
    }
    size_t size = 0;
    for (size_t i = 0; environ != NULL && environ[i] != NULL && size < count; i++) {
        if (!is_replaced(environ[i], environment)) {
            merged[size++] = environ[i];
        }
    }
    for (size_t i = 0; environment != NULL && environment[i] != NULL && size < count; i++) {
        if (is_setting(environment[i])) {
            merged[size++] = environment[i];
        }
    }
    return merged;
}

static quern_status start_by_fork(const struct qn_spawn_request *request, const char **environment,
                                  const struct ends *ends, struct qn_spawned *spawned,
                                  quern_error *err)
{
    struct qn_spawn_fork plan = {.command = request->command,
                                 .environment = environment,
                                 .fd_count = FIRST_FREE_FD,
                                 .mark = spawned->mark,
                                 .limits = request->limits};
    for (int i = 0; i < FIRST_FREE_FD; i++) {
        plan.fds[i] = ends[i].child;
    }
    plan.fd_count -= request->with_progress ? 0 : 1;
    return qn_spawn_fork(&plan, &spawned->pid, &spawned->end_fd, err);
}

static quern_status start_by_zygote(const struct qn_spawn_request *request,
                                    const char **environment, const struct ends *ends,
                                    struct qn_spawned *spawned, quern_error *err)
{
    struct qn_zygote_command command = {
        .command = request->command,
        .environment = environment,
        .limits = {.address_space_bytes = request->limits.address_space_bytes,
                   .cpu_s = request->limits.cpu_s,
                   .no_new_privs = request->limits.no_new_privs},
    };
    for (int i = 0; i < FIRST_FREE_FD; i++) {
        command.fds[i] = ends[i].child;
    }
    quern_status status = qn_launcher_start(request->launcher, &command, &spawned->launched, err);
    if (status == QUERN_OK) {
        spawned->end_fd = qn_launcher_fd(spawned->launched);
    }
    return status;
}

quern_status qn_spawn(const struct qn_spawn_request *request, struct qn_spawned *ret_spawned,
                      quern_error *err)
{
    struct ends ends[FIRST_FREE_FD] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    int end_count = request->with_progress ? PROGRESS_FILENO + 1 : PROGRESS_FILENO;
    struct qn_spawned spawned = {.pid = 0, .end_fd = -1};
    struct qn_random random;
    qn_random_init(&random);
    spawned.mark = (struct qn_spawn_mark){{qn_random_next(&random), qn_random_next(&random)}};
    spawned.cgroup_fd = qn_launcher_cgroup(request->launcher);
    spawned.oom_count = qn_oom_count(spawned.cgroup_fd);
    const char **merged = merge_environment(request->environment);
    if (merged == NULL) {
        return qn_error_nomem(err);
    }
    quern_status status = QUERN_OK;
    for (int i = 0; i < end_count && status == QUERN_OK; i++) {
        status = open_pipe(&ends[i], i == STDIN_FILENO, err);
    }
    if (status == QUERN_OK) {
        status = request->launcher != NULL ? start_by_zygote(request, merged, ends, &spawned, err)
                                           : start_by_fork(request, merged, ends, &spawned, err);
    }
    qn_free(merged);
    for (int i = 0; i < end_count; i++) {
        close_fd(&ends[i].child);
    }
    if (status != QUERN_OK) {
        goto fail;
    }
    spawned.stdin_fd = ends[STDIN_FILENO].ours;
    spawned.stdout_fd = ends[STDOUT_FILENO].ours;
    spawned.stderr_fd = ends[STDERR_FILENO].ours;
    spawned.progress_fd = ends[PROGRESS_FILENO].ours;
    *ret_spawned = spawned;
    return QUERN_OK;

fail:
    for (int i = 0; i < end_count; i++) {
        close_fd(&ends[i].ours);
    }
    return status;
}

void qn_spawn_signal(struct qn_spawned *spawned, int number)
{
    spawned->was_killed = spawned->was_killed || number == SIGKILL;
    if (spawned->launched != NULL) {
        qn_launcher_signal(spawned->launched, number);
    } else {
        qn_spawn_fork_signal(spawned->pid, number);
    }
}

pid_t qn_spawn_pid(const struct qn_spawned *spawned)
{
    return spawned->launched != NULL ? qn_launcher_pid(spawned->launched) : spawned->pid;
}

/* A shell reports the death of its command as 128 + signal. */
static bool is_out_of_memory(const struct qn_spawned *spawned)
{
    int status = spawned->end.status;
    bool is_killed = (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
                     (WIFEXITED(status) && WEXITSTATUS(status) == KILLED_BY_SHELL);
    return is_killed && !spawned->was_killed && !spawned->end.is_lost &&
           qn_oom_count(spawned->cgroup_fd) > spawned->oom_count;
}

void qn_spawn_reap(struct qn_spawned *spawned)
{
    struct qn_spawn_end *end = &spawned->end;
    if (spawned->launched != NULL) {
        struct qn_launch_end launch_end;
        qn_launcher_finish(spawned->launched, &launch_end);
        spawned->launched = NULL;
        end->status = launch_end.status;
        end->usage = launch_end.usage;
        end->error_number = launch_end.error_number;
        end->is_lost = launch_end.is_lost;
    } else {
        qn_spawn_fork_reap(spawned->pid, &end->status, &end->usage);
        close_fd(&spawned->end_fd);
    }
    spawned->end_fd = -1;
    end->out_of_memory = is_out_of_memory(spawned);
}

/* The errno with which the shell was not started; 0: it ran. */
static int errno_of_start(const struct qn_spawned *child, const struct qn_buf *stderr_text)
{
    int code = 0;
    if (stderr_text->size != QN_SPAWN_REPORT_SIZE ||
        memcmp(stderr_text->data, &child->mark, sizeof child->mark) != 0) {
        return 0;
    }
    memcpy(&code, stderr_text->data + sizeof child->mark, sizeof code);
    return code;
}

/* All but E2BIG may be over in a moment. */
quern_status qn_spawn_refusal(const struct qn_spawned *spawned, const struct qn_buf *stderr_text,
                              quern_error *err)
{
    int code = spawned->end.error_number;
    if (code == 0) {
        code = errno_of_start(spawned, stderr_text);
    }
    if (code == 0) {
        return QUERN_OK;
    }
    if (code == E2BIG) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "the command and its environment are too large for the system: "
                            "shorten the worker's environment, the command or the task's headers, "
                            "or allow more (ulimit -s)");
    }
    return qn_error_set(err, QUERN_E_FULL, "no process for a command: %s", strerror(code));
}
