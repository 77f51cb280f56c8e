/* SPDX-License-Identifier: MIT */
/* section.c - see section.h. */
#include "cli/config/section.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool qn_section_refuse(struct qn_config *config, size_t line, const char *format, ...)
{
    char text[QN_CONFIG_WHY_SIZE];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)snprintf(config->why, sizeof config->why, "%s:%zu: %.768s", config->path, line, text);
    return false;
}

const char *qn_section_name(const char *name)
{
    return strcmp(name, "general") == 0 ? "" : name;
}

bool qn_section_find_verb(const struct qn_cli *cli, const char *section,
                          const struct qn_noun **ret_noun, const struct qn_verb **ret_verb)
{
    for (size_t i = 0; i < cli->noun_count; i++) {
        const struct qn_noun *noun = cli->nouns[i];
        for (size_t k = 0; k < noun->verb_count; k++) {
            char name[sizeof cli->where];
            const struct qn_verb *verb = &noun->verbs[k];
            (void)snprintf(name, sizeof name, "%s%s%s", noun->name,
                           verb->name[0] != '\0' ? " " : "", verb->name);
            if (!verb->unconfigured && strcmp(name, section) == 0) {
                *ret_noun = noun;
                *ret_verb = verb;
                return true;
            }
        }
    }
    return false;
}
