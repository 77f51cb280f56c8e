/* SPDX-License-Identifier: MIT */
/* crash.c - a handler for the signals that kill.
 *
 * It runs on a stack of its own, because the usual one may be full. It allocates nothing and takes
 * no lock of ours: the backtrace goes through a memfd that was made before, into the page. The
 * unwinder loads a library at its first use, so it is used once when we start. The loader names
 * exported functions; others are named behind their line by the symbols that the zygote has read.
 *
 * The rest of the program may be in any state. A second fault, in the unwinder, ends the handler
 * with what it has; so does a clock, should it meet a lock that is never freed. In each case the
 * first signal then comes again with its default effect: the status and the core dump are true. */
#include "pool/prefork/crash.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/symbols.h"

enum {
    STACK_SIZE = 131072,
    FRAMES_MAX = 48,
    CLOCK_S = 2,
    LINE_SIZE_MAX = 4096,
    NAME_SIZE_MAX = 128
};

static const int handled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP, SIGXCPU};

/* A signal handler has no other way to its data. Only in children. */
static struct {
    struct qn_page *page;
    int text_fd;
    _Atomic int signal;        /* the first one; 0: none */
    _Atomic size_t text_size;  /* written to the page so far */
    struct qn_symbols symbols; /* read by the zygote, and left to its children */
} crash;

static void put(const char *text, size_t size)
{
    struct qn_room room = qn_page_text_room(crash.page);
    size_t used = crash.text_size;
    if (size > room.size - used) {
        size = room.size - used;
    }
    memcpy((char *)room.data + used, text, size);
    crash.text_size = used + size;
    qn_page_set_text_size(crash.page, (uint32_t)(used + size));
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

static void put_number(uint64_t number, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    put(digits + at, sizeof digits - at);
}

static const char *name_of(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    case SIGABRT:
        return "SIGABRT";
    case SIGSYS:
        return "SIGSYS";
    case SIGTRAP:
        return "SIGTRAP";
    default:
        return "SIGXCPU";
    }
}

static void put_head(int number, const siginfo_t *info)
{
    put_text(name_of(number));
    if (info->si_code <= 0 && info->si_pid != getpid()) { /* from kill(2) and its kin */
        put_text(" from process ");
        put_number((uint64_t)info->si_pid, 10);
    } else if (info->si_code > 0 &&
               (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL)) {
        put_text(" at address 0x");
        put_number((uint64_t)(uintptr_t)info->si_addr, 16);
    }
    put_text("\n");
}

/* Copies the line of this frame from the memfd, which has it behind `from`; returns where the next
 * one begins. */
static off_t put_frame(void *frame, uintptr_t address, off_t from)
{
    char line[LINE_SIZE_MAX];
    backtrace_symbols_fd(&frame, 1, crash.text_fd);
    ssize_t size = pread(crash.text_fd, line, sizeof line, from);
    off_t end = lseek(crash.text_fd, 0, SEEK_CUR);
    if (size <= 0) {
        return end;
    }
    size_t used = (size_t)size;
    used -= line[used - 1] == '\n' ? 1 : 0;
    put(line, used);
    const char *name = NULL;
    if (memmem(line, used, "(+", 2) != NULL) {
        name = qn_symbols_find(&crash.symbols, address);
    }
    if (name != NULL && name[0] != '\0') {
        put_text(" ");
        put(name, strnlen(name, NAME_SIZE_MAX));
    }
    put_text("\n");
    return end;
}

static void put_backtrace(void)
{
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    int skipped = count > 3 ? 3 : 0; /* this function, the handler, the return from it */
    off_t at = 0;
    for (int i = skipped; i < count && crash.text_fd >= 0; i++) {
        /* Of the others it is the place behind the call, which may be in the next function. */
        uintptr_t back = i > skipped ? 1 : 0;
        at = put_frame(frames[i], (uintptr_t)frames[i] - back, at);
    }
}

/* The default action comes as soon as the handler has returned and the signal is open again. */
static void raise_again(int number)
{
    sigset_t open;
    (void)signal(number, SIG_DFL);
    sigemptyset(&open);
    sigaddset(&open, number);
    (void)syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), number);
    (void)pthread_sigmask(SIG_UNBLOCK, &open, NULL);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    int none = 0;
    if (atomic_compare_exchange_strong(&crash.signal, &none, number)) {
        const struct itimerval alarm_time = {.it_value.tv_sec = CLOCK_S};
        (void)setitimer(ITIMER_REAL, &alarm_time, NULL);
        put_head(number, info);
        put_backtrace();
    }
    raise_again(crash.signal);
}

static void on_clock(int number)
{
    (void)number;
    if (crash.signal != 0) {
        raise_again(crash.signal);
    }
}

static bool is_default(int number)
{
    struct sigaction before;
    return sigaction(number, NULL, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
           before.sa_handler == SIG_DFL;
}

void qn_crash_prepare(void)
{
    qn_symbols_load(&crash.symbols);
}

void qn_crash_handle(struct qn_page *page)
{
    crash.page = page;
    crash.text_fd = memfd_create("quern-crash", MFD_CLOEXEC);
    void *frames[1];
    (void)backtrace(frames, 1); /* loads libgcc_s */
    void *memory = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    const stack_t stack = {.ss_sp = memory, .ss_size = STACK_SIZE};
    int on_stack = memory != MAP_FAILED && sigaltstack(&stack, NULL) == 0 ? SA_ONSTACK : 0;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_NODEFER | on_stack};
    action.sa_sigaction = on_crash;
    for (size_t i = 0; i < sizeof handled / sizeof handled[0]; i++) {
        if (is_default(handled[i])) {
            (void)sigaction(handled[i], &action, NULL);
        }
    }
    struct sigaction timed = {.sa_flags = on_stack};
    timed.sa_handler = on_clock;
    if (is_default(SIGALRM)) {
        (void)sigaction(SIGALRM, &timed, NULL);
    }
}
