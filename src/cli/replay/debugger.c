/* SPDX-License-Identifier: MIT */
/* debugger.c - puts a debugger in front of the process that runs the task.
 *
 * Handlers of a shared object run in our worker: the debugger starts that one. A command is a
 * process of its own. valgrind and rr start the shell of the command, so that they report on
 * nothing else; since the stderr of a command belongs to its task, valgrind writes to files, which
 * are shown afterwards. gdb needs the terminal, which a command, with its payload as standard
 * input, has not: so gdb starts the worker and follows each fork into the child. */
#include "cli/replay/debugger.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/str.h"
#include "cli/memory.h"

#define LOG_PREFIX "valgrind."

static const char *const names[] = {
    [QN_DEBUGGER_GDB] = "gdb",
    [QN_DEBUGGER_VALGRIND] = "valgrind",
    [QN_DEBUGGER_RR] = "rr",
};

static bool is_in_path(const char *program)
{
    const char *path = getenv("PATH");
    char place[PATH_MAX];
    while (path != NULL) {
        const char *end = strchrnul(path, ':');
        int size = snprintf(place, sizeof place, "%.*s/%s", (int)(end - path), path, program);
        if (end > path && size > 0 && (size_t)size < sizeof place && access(place, X_OK) == 0) {
            return true;
        }
        path = *end == ':' ? end + 1 : NULL;
    }
    return false;
}

int qn_debugger_find(const struct qn_cli *cli, const char *name, enum qn_debugger *ret_debugger)
{
    *ret_debugger = QN_DEBUGGER_NONE;
    if (name == NULL) {
        return QN_EXIT_OK;
    }
    for (size_t i = QN_DEBUGGER_GDB; i < QN_COUNT_OF(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_debugger = (enum qn_debugger)i;
        }
    }
    if (*ret_debugger == QN_DEBUGGER_NONE) {
        return qn_cli_usage(cli, "--under: '%s' is not gdb, valgrind or rr", name);
    }
    if (!is_in_path(name)) {
        qn_cli_message(cli, "--under: %s is not installed: no directory of PATH has it", name);
        return QN_EXIT_FAILURE;
    }
    return QN_EXIT_OK;
}

/* --- Words ------------------------------------------------------------------------------- */

struct words {
    struct qn_arena *arena;
    char **items;
    size_t count;
};

static void add(struct words *words, const char *text)
{
    if (words->count + 1 < QN_DEBUGGER_WORD_MAX) {
        words->items[words->count++] = qn_memory_must(qn_arena_strdup(words->arena, text));
        words->items[words->count] = NULL;
    }
}

static void add_gdb(struct words *words, bool is_command)
{
    add(words, "gdb");
    add(words, "-q");
    add(words, "-ex"); /* the shared object is loaded later */
    add(words, "set breakpoint pending on");
    if (is_command) {
        add(words, "-ex");
        add(words, "set follow-fork-mode child");
    }
    add(words, "--args");
}

/* 'It'\''s', for a shell. */
static const char *quote(struct qn_arena *arena, const char *text)
{
    char *out = qn_memory_must(qn_arena_alloc(arena, strlen(text) * 4 + 3));
    size_t size = 0;
    out[size++] = '\'';
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            memcpy(out + size, "'\\'", 3);
            size += 3;
        }
        out[size++] = *text;
    }
    out[size++] = '\'';
    out[size] = '\0';
    return out;
}

/* The command with the debugger in front. */
static const char *command_under(enum qn_debugger debugger, const struct qn_replay_target *target,
                                 struct qn_arena *arena)
{
    char *command = NULL;
    switch (debugger) {
    case QN_DEBUGGER_NONE:
    case QN_DEBUGGER_GDB:
        return target->command;
    case QN_DEBUGGER_VALGRIND:
        command = qn_arena_printf(arena,
                                  "exec valgrind -q --trace-children=yes --log-file=%s/" LOG_PREFIX
                                  "%%p /bin/sh -c %s",
                                  quote(arena, target->folder), quote(arena, target->command));
        break;
    case QN_DEBUGGER_RR:
        command =
            qn_arena_printf(arena, "exec rr record /bin/sh -c %s", quote(arena, target->command));
        break;
    }
    return qn_memory_must(command);
}

void qn_debugger_words(enum qn_debugger debugger, const struct qn_replay_target *target,
                       struct qn_arena *arena, char *out[QN_DEBUGGER_WORD_MAX])
{
    struct words words = {.arena = arena, .items = out};
    bool is_command = target->command != NULL;
    if (debugger == QN_DEBUGGER_GDB) {
        add_gdb(&words, is_command);
    } else if (debugger == QN_DEBUGGER_VALGRIND && !is_command) {
        add(&words, "valgrind");
    } else if (debugger == QN_DEBUGGER_RR && !is_command) {
        add(&words, "rr");
        add(&words, "record");
    }
    char self[PATH_MAX] = "quern";
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    self[size > 0 ? (size_t)size : strlen("quern")] = '\0';
    add(&words, self);
    add(&words, "internal");
    add(&words, "replay");
    add(&words, "--queue");
    add(&words, target->queue);
    add(&words, is_command ? "--exec" : "--handlers");
    add(&words, is_command ? command_under(debugger, target, arena) : target->handlers);
}

/* --- The files of valgrind ---------------------------------------------------------------- */

/* False: it is empty. */
static bool show_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    char block[4096];
    size_t size = 0;
    bool any = false;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    while (file != NULL && (size = fread(block, 1, sizeof block, file)) > 0) {
        (void)fwrite(block, 1, size, stderr);
        any = true;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return any;
}

void qn_debugger_show_files(const struct qn_cli *cli, const char *folder)
{
    struct dirent **entries = NULL;
    size_t found = 0;
    size_t shown = 0;
    int count = scandir(folder, &entries, NULL, versionsort);
    for (int i = 0; i < count; i++) {
        if (qn_str_starts_with(entries[i]->d_name, LOG_PREFIX)) {
            found++;
            shown += show_file(folder, entries[i]->d_name) ? 1 : 0;
        }
        free(entries[i]);
    }
    free(entries);
    if (found > 0 && shown == 0) {
        qn_cli_message(cli, "valgrind reports no errors");
    }
}
