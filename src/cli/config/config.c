/* SPDX-License-Identifier: MIT */
/* config.c - see config.h.
 *
 * Values are put into the args of the command as if they had been words, so that the rest of the
 * program does not know where they came from. The stronger source is read first; a value that is
 * there already, or whose opposite is, stays. Strings are those of the file's text, or of the
 * environment. */
#include "cli/config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/str.h"
#include "cli/config/broker.h"
#include "cli/memory.h"
#include "cli/variable.h"

static bool refuse(struct qn_config *config, const char *format, ...) QUERN_PRINTF(2, 3);
static bool refuse(struct qn_config *config, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(config->why, sizeof config->why, format, list);
    va_end(list);
    return false;
}

/* --- The file --------------------------------------------------------------------------- */

/* Whether a broker's URL in it has a password; such a file is a secret. */
static bool has_password(const struct qn_ini *ini)
{
    for (size_t i = 0; i < ini->line_count; i++) {
        const struct qn_ini_line *line = &ini->lines[i];
        if (line->key != NULL && strcmp(line->key, "broker") == 0 &&
            qn_config_broker_has_password(line->value)) {
            return true;
        }
    }
    return false;
}

static bool read_secret_again(struct qn_config *config)
{
    size_t size;
    char *text = qn_config_file_read(config->path, true, &size, config->why);
    qn_secret_free(text);
    return text != NULL;
}

/* take_path: NULL: none. */
static bool read_path(struct qn_cli *cli, char *take_path)
{
    struct qn_config *config = qn_memory_must(qn_alloc_zero(1, sizeof *config));
    quern_error err;
    size_t size = 0;
    qn_config_free(cli->config);
    cli->config = config;
    config->path = take_path;
    cli->config_path = take_path;
    if (take_path == NULL) {
        return true;
    }
    config->text = qn_config_file_read(config->path, false, &size, config->why);
    if (config->text == NULL) {
        return false;
    }
    quern_status status = qn_ini_parse(config->text, size, &config->ini, &err);
    if (status == QUERN_E_NOMEM) {
        qn_memory_exhausted();
    }
    if (status != QUERN_OK) {
        return refuse(config, "%s: %s", config->path, err.text);
    }
    return !has_password(&config->ini) || read_secret_again(config);
}

bool qn_config_read(struct qn_cli *cli)
{
    return read_path(cli, qn_config_file_find(cli->args.globals[QN_GLOBAL_CONFIG].text));
}

bool qn_config_read_file(struct qn_cli *cli, const char *path)
{
    return read_path(cli, path == NULL ? NULL : qn_memory_must(qn_str_dup(path)));
}

void qn_config_free(struct qn_config *config)
{
    if (config != NULL) {
        qn_ini_finish(&config->ini);
        qn_arena_finish(&config->arena);
        qn_secret_free(config->text);
        qn_secret_free(config->url);
        qn_free(config->path);
        qn_free(config);
    }
}

/* --- Sections and options ---------------------------------------------------------------- */

bool qn_config_may_set(const struct qn_option *option)
{
    return strcmp(option->name, "yes") != 0 && option != &qn_args_globals[QN_GLOBAL_CONFIG] &&
           option != &qn_args_globals[QN_GLOBAL_HELP] &&
           option != &qn_args_globals[QN_GLOBAL_VERSION];
}

/* The nearest name of a verb's section; NULL: none is near. The text is the caller's. */
static const char *nearest_section(const struct qn_cli *cli, const char *section, char *out,
                                   size_t size)
{
    const char *best = NULL;
    size_t best_distance = 3;
    for (size_t i = 0; i < cli->noun_count; i++) {
        const struct qn_noun *noun = cli->nouns[i];
        for (size_t k = 0; k < noun->verb_count; k++) {
            char name[sizeof cli->where];
            (void)snprintf(name, sizeof name, "%s%s%s", noun->name,
                           noun->verbs[k].name[0] != '\0' ? " " : "", noun->verbs[k].name);
            size_t distance = qn_str_distance(section, name);
            if (!noun->verbs[k].unconfigured && distance < best_distance) {
                best_distance = distance;
                (void)snprintf(out, size, "%s", name);
                best = out;
            }
        }
    }
    return best;
}

bool qn_config_check_head(const struct qn_cli *cli, const struct qn_ini_line *line)
{
    const struct qn_noun *noun;
    const struct qn_verb *verb;
    char nearest[sizeof cli->where];
    const char *section = qn_section_name(line->section);
    if (section[0] == '\0' || qn_config_context_name(section) != NULL ||
        qn_section_find_verb(cli, section, &noun, &verb)) {
        return true;
    }
    if (nearest_section(cli, section, nearest, sizeof nearest) == NULL) {
        return qn_section_refuse(cli->config, line->line,
                                 "[%.200s] is no verb of quern, and no [context NAME]", section);
    }
    return qn_section_refuse(cli->config, line->line,
                             "there is no verb '%.200s'; did you mean [%s]?", section, nearest);
}

/* Whether a fault of this section matters to the verb: its own, those of all verbs, and of none. */
static bool concerns(const struct qn_cli *cli, const char *section)
{
    const struct qn_noun *noun;
    const struct qn_verb *verb;
    bool is_of_another =
        strcmp(section, cli->where) != 0 && (qn_section_find_verb(cli, section, &noun, &verb) ||
                                             qn_config_context_name(section) != NULL);
    return !is_of_another;
}

static bool check_lines(const struct qn_cli *cli)
{
    const struct qn_ini *ini = &cli->config->ini;
    for (size_t i = 0; i < ini->fault_count; i++) {
        const struct qn_ini_fault *fault = &ini->faults[i];
        if (concerns(cli, qn_section_name(fault->section))) {
            return qn_section_refuse(cli->config, fault->line, "%s", fault->text);
        }
    }
    for (size_t i = 0; i < ini->line_count; i++) {
        if (ini->lines[i].key == NULL && !qn_config_check_head(cli, &ini->lines[i])) {
            return false;
        }
    }
    return true;
}

/* Whether a stronger source has chosen the opposite. */
static bool is_overruled(const struct qn_args *args, const struct qn_option *option,
                         enum qn_source source)
{
    static const char *const rivals[][2] = {{"quiet", "verbose"}, {"drain", "until-idle"}};
    for (size_t i = 0; i < 2 * QN_COUNT_OF(rivals); i++) {
        const struct qn_option *other =
            strcmp(option->name, rivals[i / 2][i % 2]) == 0
                ? qn_args_find(args->options, args->option_count, rivals[i / 2][1 - i % 2])
                : NULL;
        const struct qn_option_value *value = other == NULL ? NULL : qn_args_value(args, other);
        if (value != NULL && value->text != NULL && value->source > source) {
            return true;
        }
    }
    return false;
}

static bool is_open(const struct qn_args *args, const struct qn_option *option,
                    enum qn_source source)
{
    return qn_args_value(args, option)->source <= source && !is_overruled(args, option, source);
}

/* --- The environment --------------------------------------------------------------------- */

/* Of a repeated option each line of the text is a value. */
static bool set_from_text(struct qn_cli *cli, const struct qn_option *option, const char *text)
{
    if (!option->repeats) {
        return qn_args_set(&cli->args, option, text, QN_SOURCE_ENVIRONMENT, 0);
    }
    char *rest = NULL;
    char *copy = qn_memory_must(qn_arena_strdup(&cli->config->arena, text));
    for (char *value = strtok_r(copy, "\n", &rest); value != NULL;
         value = strtok_r(NULL, "\n", &rest)) {
        if (!qn_args_set(&cli->args, option, value, QN_SOURCE_ENVIRONMENT, 0)) {
            return false;
        }
    }
    return true;
}

static bool apply_variable(struct qn_cli *cli, const char *where, const struct qn_option *option)
{
    char name[QN_VARIABLE_SIZE];
    qn_variable_name(where, option, name);
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0' || !qn_config_may_set(option) ||
        !is_open(&cli->args, option, QN_SOURCE_ENVIRONMENT)) {
        return true;
    }
    return set_from_text(cli, option, text) ||
           refuse(cli->config, "%s: %s", name, cli->args.problem);
}

static bool apply_environment(struct qn_cli *cli)
{
    static const enum qn_global of_all[] = {QN_GLOBAL_JSON, QN_GLOBAL_NO_RETRY};
    if (cli->config->only_file) {
        return true;
    }
    for (size_t i = 0; i < cli->args.option_count; i++) {
        if (!apply_variable(cli, cli->where, &cli->args.options[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < QN_COUNT_OF(of_all); i++) {
        if (!apply_variable(cli, "", &qn_args_globals[of_all[i]])) {
            return false;
        }
    }
    return true;
}

/* --- The lines of the file --------------------------------------------------------------- */

static bool refuse_name(struct qn_cli *cli, const struct qn_ini_line *line, const char *section)
{
    const char *names[QN_OPTION_MAX + QN_GLOBAL_COUNT];
    size_t count = 0;
    for (size_t i = 0; section[0] != '\0' && i < cli->args.option_count; i++) {
        names[count++] = cli->args.options[i].name;
    }
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        names[count++] = qn_args_globals[i].name;
    }
    const char *nearest = qn_cli_nearest(line->key, names, count);
    if (nearest != NULL) {
        return qn_section_refuse(cli->config, line->line,
                                 "unknown name '%.200s'; did you mean '%s'?", line->key, nearest);
    }
    return qn_section_refuse(
        cli->config, line->line,
        section[0] == '\0' ? "unknown name '%.200s'; an option of a verb stands in its section"
                           : "unknown name '%.200s'",
        line->key);
}

static bool apply_line(struct qn_cli *cli, const struct qn_ini_line *line, const char *section)
{
    const struct qn_option *option = qn_args_find(qn_args_globals, QN_GLOBAL_COUNT, line->key);
    if (option == NULL && section[0] != '\0') {
        option = qn_args_find(cli->args.options, cli->args.option_count, line->key);
    }
    if (option == NULL) {
        return refuse_name(cli, line, section);
    }
    if (!qn_config_may_set(option)) {
        return qn_section_refuse(cli->config, line->line, "'%s' is for the command line only",
                                 option->name);
    }
    if (option == &qn_args_globals[QN_GLOBAL_BROKER] ||
        option == &qn_args_globals[QN_GLOBAL_CONTEXT] ||
        !is_open(&cli->args, option, QN_SOURCE_FILE)) {
        return true; /* broker.c reads it */
    }
    return qn_args_set(&cli->args, option, line->value, QN_SOURCE_FILE, line->line) ||
           qn_section_refuse(cli->config, line->line, "%s", cli->args.problem);
}

/* Those of the verb's own section are stronger than those of all verbs, so these come later, and
 * only for what is still open. */
static bool apply_section(struct qn_cli *cli, const char *section)
{
    const struct qn_ini *ini = &cli->config->ini;
    bool was_set[QN_GLOBAL_COUNT];
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        was_set[i] = cli->args.globals[i].source != QN_SOURCE_DEFAULT;
    }
    for (size_t i = 0; i < ini->line_count; i++) {
        const struct qn_ini_line *line = &ini->lines[i];
        if (line->key == NULL || strcmp(qn_section_name(line->section), section) != 0) {
            continue;
        }
        const struct qn_option *global = qn_args_find(qn_args_globals, QN_GLOBAL_COUNT, line->key);
        bool is_set = section[0] == '\0' && global != NULL && was_set[global - qn_args_globals];
        if (!is_set && !apply_line(cli, line, section)) {
            return false;
        }
    }
    return true;
}

bool qn_config_fill(struct qn_cli *cli)
{
    return apply_environment(cli) && apply_section(cli, cli->where) && apply_section(cli, "") &&
           qn_config_broker_choose(cli);
}

bool qn_config_apply(struct qn_cli *cli)
{
    return check_lines(cli) && qn_config_fill(cli);
}

int qn_config_use(struct qn_cli *cli)
{
    if (cli->args.globals[QN_GLOBAL_BROKER].text != NULL &&
        cli->args.globals[QN_GLOBAL_CONTEXT].text != NULL) {
        return qn_cli_usage(cli, "--broker and --context exclude each other");
    }
    if (qn_config_read(cli) && qn_config_apply(cli)) {
        return QN_EXIT_OK;
    }
    qn_cli_message(cli, "%s", cli->config->why);
    return QN_EXIT_CONFIG;
}
