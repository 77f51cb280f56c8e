/* SPDX-License-Identifier: MIT */
/* terminal.h - the kind of stdout, and its write errors. */
#ifndef QN_CLI_OUTPUT_TERMINAL_H
#define QN_CLI_OUTPUT_TERMINAL_H

#include <stdio.h>

#include "cli/cli.h"

bool qn_terminal_colors(FILE *stream);   /* a terminal that is not dumb, and NO_COLOR is not set */
size_t qn_terminal_width(FILE *stream);  /* 0: not a terminal */
size_t qn_terminal_height(FILE *stream); /* in lines; 0: not a terminal */
/* Flushes stdio. The exit code, or another one when stdout could not be written. */
int qn_terminal_finish(const struct qn_cli *cli, int exit_code);

#endif
