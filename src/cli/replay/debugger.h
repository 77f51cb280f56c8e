/* SPDX-License-Identifier: MIT */
/* debugger.h - the command lines of the debuggers that a replay runs under. */
#ifndef QN_CLI_REPLAY_DEBUGGER_H
#define QN_CLI_REPLAY_DEBUGGER_H

#include "base/memory/arena.h"
#include "cli/cli.h"

enum qn_debugger { QN_DEBUGGER_NONE, QN_DEBUGGER_GDB, QN_DEBUGGER_VALGRIND, QN_DEBUGGER_RR };

/* One of them must be given; NULL: not. */
struct qn_replay_target {
    const char *command;
    const char *handlers;
    const char *queue;
    const char *folder; /* for files of the debugger */
};

#define QN_DEBUGGER_WORD_MAX 32

/* name NULL: none. Reports a name that it does not know and a program that is not there; returns
 * the exit code. */
QUERN_NODISCARD int qn_debugger_find(const struct qn_cli *cli, const char *name,
                                     enum qn_debugger *ret_debugger);
/* The words of the process that runs the task, NULL-terminated. */
void qn_debugger_words(enum qn_debugger debugger, const struct qn_replay_target *target,
                       struct qn_arena *arena, char *words[QN_DEBUGGER_WORD_MAX]);
/* Copies what valgrind wrote about commands to stderr. */
void qn_debugger_show_files(const struct qn_cli *cli, const char *folder);

#endif
