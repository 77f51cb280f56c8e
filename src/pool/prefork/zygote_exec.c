/* SPDX-License-Identifier: MIT */
/* zygote_exec.c - a zygote that is a program of its own, for workers that have threads.
 *
 * The program is executed with a socket as its descriptor 3, in which a packet waits: a fixed mark,
 * the version of this protocol, a random token, and as descriptors a pidfd of the worker and its
 * stderr. So qn_zygote_serve knows that it was started by us, without an environment variable or an
 * argument, and it takes no other descriptor 3 for ours. It returns the token with its hello.
 *
 * Until then its stderr is a pipe to us: its last lines are the reason if it ends early. All of it
 * is copied to our stderr as well. PDEATHSIG holds until it serves: the thread that started it
 * waits here. Between fork and exec there are only async-signal-safe calls. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/random.h"
#include "pool/prefork/zygote.h"
#include "pool/prefork/zygote_internal.h"
#include "pool/prefork/zygote_setup.h"
#include "pool/prefork/zygote_wire.h"

enum { EXIT_NOT_EXECUTED = 127, LINES_SIZE_MAX = 160, READ_SIZE = 4096, POLL_MS_MAX = 60000 };

struct launch {
    const char *path;
    char *const *argv;
    int socket_fds[2]; /* ours, and that of the program */
    int stderr_fds[2]; /* as pipe2 has them */
    uint64_t token;
    pid_t pid;
    int pid_fd;
    bool is_closed; /* its end of the socket: it will end, or it never serves */
    size_t lines_size;
    char lines[LINES_SIZE_MAX + 1]; /* the end of its stderr */
};

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

static void close_launch(struct launch *launch)
{
    close_fd(&launch->socket_fds[0]);
    close_fd(&launch->socket_fds[1]);
    close_fd(&launch->stderr_fds[0]);
    close_fd(&launch->stderr_fds[1]);
    close_fd(&launch->pid_fd);
}

static quern_status open_fds(struct launch *launch, quern_error *err)
{
    struct qn_random random;
    qn_random_init(&random);
    launch->token = qn_random_next(&random);
    struct qn_zygote_handshake first = {.mark = QN_ZYGOTE_MARK, .token = launch->token};
    struct qn_bytes bytes = {.data = &first, .size = sizeof first};
    struct qn_zygote_fds fds = {.items = {pidfd_open(getpid(), 0), STDERR_FILENO}, .count = 1};
    if (fcntl(STDERR_FILENO, F_GETFD) >= 0) {
        fds.count = 2;
    }
    bool is_open = fds.items[0] >= 0 &&
                   socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, launch->socket_fds) == 0 &&
                   pipe2(launch->stderr_fds, O_CLOEXEC) == 0 &&
                   fcntl(launch->stderr_fds[0], F_SETFL, O_NONBLOCK) == 0;
    int error_number = is_open ? qn_zygote_wire_send(launch->socket_fds[0], bytes, &fds) : errno;
    close_fd(&fds.items[0]);
    if (error_number != 0) {
        return qn_error_set(err, QUERN_E_FULL, "no descriptor for the zygote: %s",
                            strerror(error_number));
    }
    return QUERN_OK;
}

/* In the child: async-signal-safe calls only. */
_Noreturn static void execute(const struct launch *launch, pid_t parent)
{
    struct qn_zygote_handshake failure = {.mark = QN_ZYGOTE_MARK, .token = launch->token};
    int socket_fd = fcntl(launch->socket_fds[1], F_DUPFD_CLOEXEC, QN_ZYGOTE_SERVE_FD + 1);
    int stderr_fd = fcntl(launch->stderr_fds[1], F_DUPFD_CLOEXEC, QN_ZYGOTE_SERVE_FD + 1);
    int kept[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, QN_ZYGOTE_SERVE_FD, socket_fd};
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent && socket_fd >= 0 &&
        stderr_fd >= 0 && dup2(stderr_fd, STDERR_FILENO) >= 0 &&
        dup2(socket_fd, QN_ZYGOTE_SERVE_FD) >= 0) {
        qn_zygote_setup_close_but(kept, sizeof kept / sizeof *kept);
        qn_zygote_setup_signals();
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execv(launch->path, launch->argv);
    }
    failure.error_number = errno > 0 ? errno : EIO;
    (void)send(socket_fd, &failure, sizeof failure, MSG_NOSIGNAL);
    _exit(EXIT_NOT_EXECUTED);
}

static quern_status launch_program(struct launch *launch, quern_error *err)
{
    sigset_t all;
    sigset_t before;
    pid_t parent = getpid();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    launch->pid = fork();
    if (launch->pid == 0) {
        execute(launch, parent);
    }
    int error_number = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (launch->pid < 0) {
        return qn_error_set(err, QUERN_E_FULL, "no process for the zygote: %s",
                            strerror(error_number));
    }
    close_fd(&launch->socket_fds[1]);
    close_fd(&launch->stderr_fds[1]);
    launch->pid_fd = pidfd_open(launch->pid, 0);
    if (launch->pid_fd < 0) {
        return qn_error_set(err, QUERN_E_FULL, "cannot watch the zygote: %s", strerror(errno));
    }
    return QUERN_OK;
}

/* Keeps its last bytes, and copies all to our stderr. Returns once there is nothing to read. */
static void read_stderr(struct launch *launch)
{
    char piece[READ_SIZE];
    ssize_t count = 0;
    while (launch->stderr_fds[0] >= 0 &&
           (count = read(launch->stderr_fds[0], piece, sizeof piece)) > 0) {
        (void)!write(STDERR_FILENO, piece, (size_t)count);
        size_t size = (size_t)count < LINES_SIZE_MAX ? (size_t)count : LINES_SIZE_MAX;
        size_t kept =
            launch->lines_size + size < LINES_SIZE_MAX ? launch->lines_size : LINES_SIZE_MAX - size;
        memmove(launch->lines, launch->lines + launch->lines_size - kept, kept);
        memcpy(launch->lines + kept, piece + (size_t)count - size, size);
        launch->lines_size = kept + size;
    }
    if (count == 0) {
        close_fd(&launch->stderr_fds[0]);
    }
}

/* Its last lines in one, for an error text: no control characters. */
static const char *last_lines(struct launch *launch)
{
    while (launch->lines_size > 0 && launch->lines[launch->lines_size - 1] <= ' ' &&
           launch->lines[launch->lines_size - 1] > 0) {
        launch->lines_size--;
    }
    launch->lines[launch->lines_size] = '\0';
    for (size_t i = 0; i < launch->lines_size; i++) {
        unsigned char byte = (unsigned char)launch->lines[i];
        if (byte < ' ' || byte > '~') {
            launch->lines[i] = byte == '\n' ? '/' : '?';
        }
    }
    return launch->lines_size > 0 ? launch->lines : "nothing on its stderr";
}

/* Takes the descriptor. */
static quern_status read_hello(int take_fd, uint64_t size, struct qn_room *hello, quern_error *err)
{
    quern_status status = QUERN_OK;
    char *data = qn_alloc(size);
    if (data == NULL) {
        status = qn_error_nomem(err);
    } else if (pread(take_fd, data, size, 0) != (ssize_t)size) {
        status = qn_error_set(err, QUERN_E_CONNECT, "the hello of the zygote cannot be read");
    }
    (void)close(take_fd);
    if (status != QUERN_OK) {
        qn_free(data);
        return status;
    }
    *hello = (struct qn_room){.data = data, .size = size};
    return QUERN_OK;
}

/* *ret_came: it has answered, and the status says how. */
static quern_status read_answer(struct launch *launch, bool *ret_came, struct qn_room *hello,
                                quern_error *err)
{
    struct qn_zygote_handshake answer;
    struct qn_zygote_fds fds = {.count = 0};
    ssize_t size = qn_zygote_wire_receive(launch->socket_fds[0], QN_ROOM_OF(answer), &fds);
    launch->is_closed = size == 0;
    *ret_came = size > 0 || size == -EMFILE || size == -EBADMSG;
    if (!*ret_came) {
        return QUERN_OK;
    }
    if (size != (ssize_t)sizeof answer || answer.mark != QN_ZYGOTE_MARK ||
        answer.token != launch->token || answer.hello_size > QN_ZYGOTE_HELLO_SIZE_MAX ||
        fds.count != (answer.hello_size > 0 ? 1 : 0)) {
        qn_zygote_wire_close(&fds);
        return qn_error_set(err, QUERN_E_CONNECT, "%s answers with another version", launch->path);
    }
    if (answer.error_number != 0) {
        qn_zygote_wire_close(&fds);
        return qn_error_set(err, QUERN_E_CONNECT, "cannot execute %s: %s", launch->path,
                            strerror(answer.error_number));
    }
    return fds.count == 0 ? QUERN_OK : read_hello(fds.items[0], answer.hello_size, hello, err);
}

/* It has ended: reaps it and says how. */
static quern_status report_end(struct launch *launch, quern_error *err)
{
    int status = 0;
    read_stderr(launch);
    (void)waitpid(launch->pid, &status, 0);
    launch->pid = -1;
    return qn_error_set(err, QUERN_E_CONNECT, "%s ended before it served (%s %d): %s", launch->path,
                        WIFEXITED(status) ? "exit code" : "signal",
                        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
                        last_lines(launch));
}

static quern_status await_answer(struct launch *launch, int64_t timeout_ms, struct qn_room *hello,
                                 quern_error *err)
{
    int64_t until_ns = qn_clock_mono_ns() + timeout_ms * QN_NS_PER_MS;
    for (;;) {
        bool has_come = false;
        struct pollfd fds[] = {
            {.fd = launch->is_closed ? -1 : launch->socket_fds[0], .events = POLLIN},
            {.fd = launch->pid_fd, .events = POLLIN},
            {.fd = launch->stderr_fds[0], .events = POLLIN}};
        int64_t left_ns = until_ns - qn_clock_mono_ns();
        int64_t left_ms =
            left_ns / QN_NS_PER_MS < POLL_MS_MAX ? left_ns / QN_NS_PER_MS : POLL_MS_MAX;
        int count = left_ns <= 0 ? 0 : poll(fds, 3, (int)left_ms + 1);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        read_stderr(launch);
        quern_status status = QUERN_OK;
        if (!launch->is_closed) {
            status = read_answer(launch, &has_come, hello, err);
        }
        if (has_come) {
            return status;
        }
        if (count > 0 && fds[1].revents != 0) {
            return report_end(launch, err);
        }
        if (left_ns <= 0) {
            return qn_error_set(err, QUERN_E_TIMEOUT, "%s did not serve within %lld ms: %s",
                                launch->path, (long long)timeout_ms, last_lines(launch));
        }
    }
}

quern_status qn_zygote_exec(const char *path, char *const argv[], int64_t timeout_ms,
                            struct qn_zygote **ret_zygote, quern_error *err)
{
    struct launch launch = {.path = path,
                            .argv = argv,
                            .socket_fds = {-1, -1},
                            .stderr_fds = {-1, -1},
                            .pid = -1,
                            .pid_fd = -1};
    struct qn_zygote_process process = {.socket_fd = -1};
    quern_status status = open_fds(&launch, err);
    if (status == QUERN_OK) {
        status = launch_program(&launch, err);
    }
    if (status == QUERN_OK) {
        status = await_answer(&launch, timeout_ms, &process.hello, err);
    }
    if (status == QUERN_OK) {
        process.socket_fd = launch.socket_fds[0];
        process.pid = launch.pid;
        launch.socket_fds[0] = launch.pid = -1;
        status = qn_zygote_adopt(&process, ret_zygote, err);
    }
    if (launch.pid > 0) {
        (void)kill(launch.pid, SIGKILL);
        (void)waitpid(launch.pid, NULL, 0);
    }
    close_launch(&launch);
    return status;
}
