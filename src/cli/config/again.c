/* SPDX-License-Identifier: MIT */
/* again.c - see again.h.
 *
 * The words are those of the start, so --broker, whose password is starred out in them by now, is
 * not compared: it cannot have changed, nor can the environment. */
#include "cli/config/again.h"

#include <stdio.h>
#include <string.h>

bool qn_again_read(const struct qn_cli *now, struct qn_cli *next, char why[QN_CONFIG_WHY_SIZE])
{
    struct qn_args *args = &next->args;
    next->nouns = now->nouns;
    next->noun_count = now->noun_count;
    next->noun = now->noun;
    next->verb = now->verb;
    (void)memcpy(next->where, now->where, sizeof next->where);
    qn_args_init(args, now->args.argc, now->args.argv);
    bool understood = qn_args_next_word(args) != NULL &&
                      (now->verb->name[0] == '\0' || qn_args_next_word(args) != NULL) &&
                      qn_args_parse(args, now->verb->options, now->verb->option_count);
    if (!understood) { /* it was, at the start */
        (void)snprintf(why, QN_CONFIG_WHY_SIZE, "%s", args->problem);
        return false;
    }
    if (!qn_config_read(next) || !qn_config_apply(next)) {
        (void)snprintf(why, QN_CONFIG_WHY_SIZE, "%s", next->config->why);
        return false;
    }
    return true;
}

void qn_again_finish(struct qn_cli *next)
{
    qn_args_finish(&next->args);
    qn_config_free(next->config);
    next->config = NULL;
}

static bool is_equal(const char *left, const char *right)
{
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

bool qn_again_differs(const struct qn_cli *now, const struct qn_cli *next, size_t option)
{
    if (!now->verb->options[option].repeats) {
        return !is_equal(now->args.values[option].text, next->args.values[option].text);
    }
    size_t i = 0;
    const char *text;
    while ((text = qn_args_repeat(&now->args, option, i)) != NULL &&
           is_equal(text, qn_args_repeat(&next->args, option, i))) {
        i++;
    }
    return text != NULL || qn_args_repeat(&next->args, option, i) != NULL;
}

bool qn_again_moves(const struct qn_cli *now, const struct qn_cli *next)
{
    return !is_equal(now->configured_url, next->configured_url);
}
