/* SPDX-License-Identifier: MIT */
/* redact.c - passwords of the command line in a message about that line.
 *
 * A message quotes words of the command line as they were given, and any of them may be a URL with
 * a password, also where none belongs. Where the end of a URL is not known, the rest is left out.
 * */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text/str.h"
#include "base/text/url.h"
#include "cli/cli.h"

/* The word of the command line, or the value of its --option=value, that has its "://" where `mark`
 * points and stands there as a whole; NULL: none has. */
static const char *find_argument(const struct qn_cli *cli, const char *line, const char *mark)
{
    for (int i = 1; i < cli->args.argc; i++) {
        const char *word = cli->args.argv[i];
        const char *colon = strstr(word, "://");
        const char *sign = strchr(word, '=');
        if (colon != NULL && qn_str_starts_with(word, "--") && sign != NULL && sign < colon) {
            word = sign + 1;
        }
        size_t before = colon == NULL ? SIZE_MAX : (size_t)(colon - word);
        if (before <= (size_t)(mark - line) && qn_str_starts_with(mark - before, word)) {
            return word;
        }
    }
    return NULL;
}

void qn_cli_hide_passwords(const struct qn_cli *cli, const char *line, char *out, size_t out_size)
{
    const char *at = line;
    size_t used = 0;
    out[0] = '\0';
    for (const char *mark = strstr(at, "://"); mark != NULL; mark = strstr(at, "://")) {
        const char *word = find_argument(cli, at, mark);
        const char *begin = word == NULL ? mark : mark - (strstr(word, "://") - word);
        (void)snprintf(out + used, out_size - used, "%.*s", (int)(begin - at), at);
        used += strlen(out + used);
        if (word == NULL) { /* cut short, or from elsewhere: where it ends is not known */
            (void)snprintf(out + used, out_size - used, "://***");
            return;
        }
        qn_url_redact(word, out + used, out_size - used);
        used += strlen(out + used);
        at = begin + strlen(word);
    }
    (void)snprintf(out + used, out_size - used, "%s", at);
}
