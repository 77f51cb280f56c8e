/* SPDX-License-Identifier: MIT */
/* terminal.c - the kind of stdout, and its write errors.
 *
 * Errors of writing show when stdio is flushed at the end (qn_terminal_finish): a full disk is
 * reported, a reader that went away is not. */
#include "cli/output/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool qn_terminal_colors(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) == 1 && (no_color == NULL || no_color[0] == '\0') &&
           term != NULL && strcmp(term, "dumb") != 0;
}

static bool read_size(FILE *stream, struct winsize *size)
{
    *size = (struct winsize){0};
    if (isatty(fileno(stream)) != 1) {
        return false;
    }
    (void)ioctl(fileno(stream), TIOCGWINSZ, size); /* a failure leaves zeros */
    return true;
}

size_t qn_terminal_width(FILE *stream)
{
    struct winsize size;
    if (!read_size(stream, &size)) {
        return 0;
    }
    return size.ws_col == 0 ? 80 : size.ws_col;
}

size_t qn_terminal_height(FILE *stream)
{
    struct winsize size;
    if (!read_size(stream, &size)) {
        return 0;
    }
    return size.ws_row == 0 ? 24 : size.ws_row;
}

int qn_terminal_finish(const struct qn_cli *cli, int exit_code)
{
    errno = 0;
    int failed = fflush(stdout);
    int cause = errno;
    if ((failed == 0 && ferror(stdout) == 0) || cause == EPIPE) {
        return exit_code;
    }
    qn_cli_message(cli, "cannot write to stdout%s%s", cause != 0 ? ": " : "",
                   cause != 0 ? strerror(cause) : "");
    return exit_code == QN_EXIT_OK ? QN_EXIT_FAILURE : exit_code;
}
