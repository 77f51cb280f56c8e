/* SPDX-License-Identifier: MIT */
/* variable.c - see variable.h. */
#include "cli/variable.h"

static size_t add_word(char *out, size_t used, size_t size, const char *word)
{
    for (; *word != '\0' && used + 1 < size; word++) {
        bool is_lower = *word >= 'a' && *word <= 'z';
        out[used++] = is_lower                       ? (char)(*word - 'a' + 'A')
                      : *word == '-' || *word == ' ' ? '_'
                                                     : *word;
    }
    out[used] = '\0';
    return used;
}

void qn_variable_name(const char *where, const struct qn_option *option,
                      char ret_name[QN_VARIABLE_SIZE])
{
    size_t used = add_word(ret_name, 0, QN_VARIABLE_SIZE, "quern-");
    if (where[0] != '\0') {
        used = add_word(ret_name, used, QN_VARIABLE_SIZE, where);
        used = add_word(ret_name, used, QN_VARIABLE_SIZE, "-");
    }
    (void)add_word(ret_name, used, QN_VARIABLE_SIZE, option->name);
}
