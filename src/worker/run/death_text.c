/* SPDX-License-Identifier: MIT */
/* death_text.c - how a process ended, as the error text of its run.
 *
 * The verdict comes first, because lists show only the first words of an error. CPU time and memory
 * are behind it, not in the text of plain failures: these would differ in each run, and equal
 * failures should read alike. No I/O; sigabbrev_np gives names that no locale changes. */
#include "worker/run/death_text.h"

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text/duration.h"
#include "quern/export.h"

enum { SIGNALLED_BY_SHELL = 128, KIB = 1024 };
#define BACKTRACE_TITLE "\nbacktrace:\n"
#define CUT_MARK "[cut] "

struct text {
    char *out;
    size_t size; /* without the NUL */
    size_t room; /* with it */
};

static void add_bytes(struct text *text, const char *data, size_t size)
{
    size_t left = text->room - text->size - 1;
    size = size < left ? size : left;
    if (size > 0) {
        memcpy(text->out + text->size, data, size);
        text->size += size;
    }
    text->out[text->size] = '\0';
}

static void add(struct text *text, const char *format, ...) QUERN_PRINTF(2, 3);
static void add(struct text *text, const char *format, ...)
{
    size_t left = text->room - text->size;
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text->out + text->size, left, format, arguments);
    va_end(arguments);
    if (size > 0) {
        text->size += (size_t)size < left ? (size_t)size : left - 1;
    }
}

/* Of a signal; "?" for one without a name. */
static const char *name_of(int number)
{
    const char *name = sigabbrev_np(number);
    return name != NULL ? name : "?";
}

static void add_verdict(struct text *text, const struct qn_death_facts *facts)
{
    if (WIFEXITED(facts->status)) {
        int code = WEXITSTATUS(facts->status);
        int number = code - SIGNALLED_BY_SHELL;
        add(text, "exit status %d", code);
        if (number > 0 && sigabbrev_np(number) != NULL) {
            add(text, " (128 + SIG%s)", name_of(number));
        }
    } else {
        int number = WTERMSIG(facts->status);
        add(text, "killed by signal %d (SIG%s)", number, name_of(number));
        if (WCOREDUMP(facts->status)) {
            add(text, ", core dumped");
        }
    }
    if (facts->out_of_memory) {
        add(text, ", the system was out of memory");
    }
    if (facts->over_cpu) {
        add(text, ", its CPU limit was reached");
    }
    if (facts->note != NULL) {
        add(text, ", %s", facts->note);
    }
}

static int64_t ms_of(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_usec / 1000;
}

static void add_usage(struct text *text, const struct rusage *usage)
{
    char cpu[32];
    int64_t kib = usage->ru_maxrss;
    qn_duration_format(ms_of(&usage->ru_utime) + ms_of(&usage->ru_stime), cpu, sizeof cpu);
    add(text, "; CPU %s, memory ", cpu);
    if (kib < 10L * KIB) {
        add(text, "%lld KiB", (long long)kib);
    } else {
        add(text, "%lld MiB", (long long)(kib / KIB));
    }
}

struct qn_run_facts qn_death_text_facts(int status, const struct rusage *usage)
{
    struct qn_run_facts facts = {.known = true, .cpu_ms = -1, .memory_kib = -1, .exit_code = -1};
    if (WIFEXITED(status)) {
        facts.exit_code = WEXITSTATUS(status);
    } else if (WIFSIGNALED(status)) {
        facts.signal = WTERMSIG(status);
    }
    if (usage != NULL) {
        facts.cpu_ms = ms_of(&usage->ru_utime) + ms_of(&usage->ru_stime);
        facts.memory_kib = usage->ru_maxrss;
    }
    return facts;
}

struct qn_bytes qn_death_text_last_lines(struct qn_bytes stderr_text, size_t size_max)
{
    const char *data = stderr_text.data;
    size_t size = stderr_text.size;
    while (size > 0 && strchr(" \t\r\n", data[size - 1]) != NULL) {
        size--;
    }
    if (size > size_max) {
        data += size - size_max;
        size = size_max;
        const char *newline = memchr(data, '\n', size);
        if (newline != NULL) {
            size -= (size_t)(newline + 1 - data);
            data = newline + 1;
        }
    }
    return (struct qn_bytes){data, size};
}

/* In the room that is left but `spare` bytes. */
static void add_stderr(struct text *text, const struct qn_death_facts *facts, size_t spare)
{
    const size_t between = strlen(": ") + strlen(CUT_MARK);
    size_t left = text->room - text->size - 1;
    if (facts->stderr_text.size == 0 || left <= spare + between) {
        return;
    }
    struct qn_bytes lines = qn_death_text_last_lines(facts->stderr_text, left - spare - between);
    bool is_cut = facts->stderr_cut || lines.data != facts->stderr_text.data;
    if (lines.size > 0) {
        add(text, ": %s", is_cut ? CUT_MARK : "");
        add_bytes(text, lines.data, lines.size);
    }
}

size_t qn_death_text(const struct qn_death_facts *facts, char *out, size_t out_size)
{
    struct text text = {.out = out, .room = out_size};
    const char *backtrace = facts->backtrace != NULL ? facts->backtrace : "";
    size_t backtrace_size = strlen(backtrace);
    size_t spare = backtrace_size > 0 ? backtrace_size + strlen(BACKTRACE_TITLE) : 0;
    if (out_size == 0) {
        return 0;
    }
    out[0] = '\0';
    add_verdict(&text, facts);
    if (facts->usage != NULL) {
        add_usage(&text, facts->usage);
    }
    size_t half = (text.room - text.size) / 2; /* stderr may have as much as the backtrace */
    add_stderr(&text, facts, spare < half ? spare : half);
    if (backtrace_size > 0) {
        add(&text, BACKTRACE_TITLE);
        add_bytes(&text, backtrace, backtrace_size);
    }
    while (text.size > 0 && text.out[text.size - 1] == '\n') {
        text.out[--text.size] = '\0';
    }
    return text.size;
}
