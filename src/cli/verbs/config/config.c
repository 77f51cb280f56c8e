/* SPDX-License-Identifier: MIT */
/* config.c - `quern config check` and `quern config show`: whether the configuration can be used,
 * and where each value comes from.
 *
 * check reads every section as its verb would, so each has at most one fault; show reads that of
 * one verb, with the words behind "--" as its command line. Neither opens a broker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/secret.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "broker/url/url_advice.h"
#include "broker/url/url_list.h"
#include "broker/url/url_spelling.h"
#include "cli/cli.h"
#include "cli/config/broker.h"
#include "cli/config/config.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "cli/output/table.h"
#include "cli/variable.h"

#define VALUE_SIZE 1024
#define FAULTS_MAX 256

/* --- A verb beside the one that runs ------------------------------------------------------ */

/* A command line of another verb, in `words` of which the first is skipped, with the configuration
 * of `cli`, which it borrows. */
static void begin(struct qn_cli *other, const struct qn_cli *cli, const struct qn_noun *noun,
                  const struct qn_verb *verb)
{
    *other = (struct qn_cli){.nouns = cli->nouns,
                             .noun_count = cli->noun_count,
                             .noun = noun,
                             .verb = verb,
                             .config = cli->config,
                             .config_path = cli->config_path,
                             .on_message = cli->on_message,
                             .message_user = cli->message_user};
    (void)snprintf(other->where, sizeof other->where, "%s%s%s", noun->name,
                   verb->name[0] != '\0' ? " " : "", verb->name);
}

static void end(struct qn_cli *other)
{
    qn_args_finish(&other->args);
    qn_secret_free(other->given_text);
    qn_secret_free(other->given_url);
    qn_secret_free(other->broker_url);
}

/* --- check -------------------------------------------------------------------------------- */

struct checking {
    struct qn_cli *cli;
    char *faults[FAULTS_MAX]; /* owned */
    size_t fault_count;
};

static void note(struct checking *checking, const char *text)
{
    for (size_t i = 0; i < checking->fault_count; i++) {
        if (strcmp(checking->faults[i], text) == 0) {
            return; /* it matters to several verbs */
        }
    }
    if (checking->fault_count < FAULTS_MAX) {
        checking->faults[checking->fault_count++] = qn_memory_must(qn_str_dup(text));
    }
}

static void note_message(quern_log_level level, const char *text, void *user)
{
    if (level >= QUERN_LOG_ERROR) {
        note(user, text);
    }
}

/* Whether a broker could be opened by this URL, as far as that can be told without its server and
 * the files that it names. */
static quern_status check_url(const char *url, quern_error *err)
{
    struct qn_url parsed;
    if (qn_url_spelling_is_server(url) && qn_url_next(url) != NULL) {
        struct qn_url_list list;
        quern_status status = qn_url_list_init(&list, url, err);
        if (status == QUERN_OK) {
            qn_url_list_finish(&list);
        }
        return status;
    }
    quern_status status = qn_url_parse(url, &parsed, err);
    if (status != QUERN_OK) {
        return status;
    }
    qn_url_spelling_resolve(&parsed);
    status = qn_url_advice(&parsed, err);
    if (status == QUERN_OK && parsed.scheme[0] != '\0' && strcmp(parsed.scheme, "sqlite") != 0 &&
        !qn_url_list_is_redis(&parsed)) {
        status = qn_error_set(err, QUERN_E_INVALID, "unknown broker scheme \"%s\"", parsed.scheme);
    }
    qn_url_finish(&parsed);
    return status;
}

/* The broker that a line of the file names; those of contexts are checked with these. */
static void check_broker(struct checking *checking, const struct qn_cli *other)
{
    quern_error err;
    const struct qn_config_choice choice = qn_config_broker_choice(other);
    if (choice.text != NULL && choice.option == QN_GLOBAL_BROKER &&
        check_url(choice.text, &err) != QUERN_OK) {
        (void)qn_section_refuse(other->config, choice.line, "broker: %s", err.text);
        note(checking, other->config->why);
    }
}

/* As the verb would read it; without its section that is what matters to all verbs. */
static void check_verb(struct checking *checking, const struct qn_noun *noun,
                       const struct qn_verb *verb)
{
    static char *no_words[] = {NULL};
    struct qn_cli other;
    begin(&other, checking->cli, noun, verb);
    other.on_message = note_message;
    other.message_user = checking;
    qn_args_init(&other.args, 0, no_words);
    bool understood = qn_args_parse(&other.args, verb->options, verb->option_count);
    if (!understood || !qn_config_fill(&other)) {
        note(checking, other.config->why);
    } else {
        check_broker(checking, &other);
        if (verb->check != NULL) {
            (void)verb->check(&other);
        }
    }
    qn_secret_free(other.config->url);
    other.config->url = NULL;
    end(&other);
}

static void check_context(struct checking *checking, const struct qn_ini_line *head)
{
    struct qn_config *config = checking->cli->config;
    char *url = qn_config_broker_of(config, qn_config_context_name(head->section), head->line);
    quern_error err;
    if (url == NULL) {
        note(checking, config->why);
    } else if (check_url(url, &err) != QUERN_OK) {
        (void)qn_section_refuse(config, head->line, "%s", err.text);
        note(checking, config->why);
    }
    qn_secret_free(url);
}

static void check_all(struct checking *checking)
{
    const struct qn_cli *cli = checking->cli;
    const struct qn_ini *ini = &cli->config->ini;
    const struct qn_noun *noun;
    const struct qn_verb *verb;
    check_verb(checking, &qn_noun_stats, &qn_noun_stats.verbs[0]); /* has no options of its own */
    for (size_t i = 0; i < ini->line_count; i++) {
        const char *section = ini->lines[i].section;
        if (ini->lines[i].key == NULL && !qn_config_check_head(cli, &ini->lines[i])) {
            note(checking, cli->config->why);
        } else if (ini->lines[i].key == NULL && qn_config_context_name(section) != NULL) {
            check_context(checking, &ini->lines[i]);
        } else if (ini->lines[i].key == NULL && qn_section_find_verb(cli, section, &noun, &verb)) {
            check_verb(checking, noun, verb);
        }
    }
    for (size_t i = 0; i < ini->fault_count; i++) {
        (void)qn_section_refuse(cli->config, ini->faults[i].line, "%s", ini->faults[i].text);
        note(checking, cli->config->why);
    }
}

static int report(const struct checking *checking)
{
    const struct qn_cli *cli = checking->cli;
    bool ok = checking->fault_count == 0;
    if (cli->json) {
        json_t *faults = qn_memory_must(json_array());
        for (size_t i = 0; i < checking->fault_count; i++) {
            (void)json_array_append_new(faults, qn_memory_must(json_string(checking->faults[i])));
        }
        json_t *document =
            json_pack("{s:s?,s:b,s:o}", "file", cli->config_path, "ok", ok, "faults", faults);
        int exit_code = qn_json_print(document);
        return exit_code != QN_EXIT_OK || ok ? exit_code : QN_EXIT_CONFIG;
    }
    for (size_t i = 0; i < checking->fault_count; i++) {
        qn_cli_message(cli, "%s", checking->faults[i]);
    }
    if (ok) {
        printf("%s: ok\n", cli->config_path);
    }
    return ok ? QN_EXIT_OK : QN_EXIT_CONFIG;
}

static int run_check(struct qn_cli *cli)
{
    const char *path = qn_args_operand(&cli->args, 0);
    struct checking checking = {.cli = cli};
    if (path != NULL && path[0] == '\0') {
        return qn_cli_usage(cli, "FILE is empty");
    }
    bool is_read = path != NULL ? qn_config_read_file(cli, path) : qn_config_read(cli);
    if (!is_read) {
        note(&checking, cli->config->why);
    } else if (cli->config_path == NULL) {
        qn_cli_message(cli, "there is no configuration file: name it, or see --config");
        return QN_EXIT_CONFIG;
    } else {
        cli->config->only_file = true;
        check_all(&checking);
    }
    int exit_code = report(&checking);
    for (size_t i = 0; i < checking.fault_count; i++) {
        qn_free(checking.faults[i]);
    }
    return exit_code;
}

/* --- show --------------------------------------------------------------------------------- */

struct showing {
    const struct qn_cli *cli; /* of the verb */
    struct qn_table table;
    json_t *values; /* NULL: a table */
};

/* The text without passwords of URLs in it. */
static void mask(const char *text, char out[VALUE_SIZE])
{
    size_t used = 0;
    for (size_t i = 0; text[i] != '\0' && used + 4 < VALUE_SIZE; i++) {
        out[used++] = text[i];
        if (i < 2 || strncmp(&text[i - 2], "://", 3) != 0) {
            continue;
        }
        size_t size = strcspn(&text[i + 1], " \t'\"");
        const char *begin_at = &text[i + 1];
        const char *sign = memrchr(begin_at, '@', size);
        const char *colon = sign == NULL ? NULL : memchr(begin_at, ':', (size_t)(sign - begin_at));
        for (; colon != NULL && begin_at <= colon && used + 4 < VALUE_SIZE; begin_at++) {
            out[used++] = *begin_at;
        }
        if (colon != NULL) {
            (void)memcpy(out + used, "***", 3);
            used += 3;
            i = (size_t)(sign - text) - 1;
        }
    }
    out[used] = '\0';
}

static bool is_set(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL && text[0] != '\0';
}

static void describe(const struct showing *showing, const struct qn_option *option,
                     const struct qn_option_value *value, char out[VALUE_SIZE])
{
    char variable[QN_VARIABLE_SIZE];
    bool is_global = qn_args_find(qn_args_globals, QN_GLOBAL_COUNT, option->name) == option;
    switch (value->source) {
    case QN_SOURCE_DEFAULT:
        (void)snprintf(out, VALUE_SIZE, "default");
        break;
    case QN_SOURCE_FILE:
        (void)snprintf(out, VALUE_SIZE, "%s:%zu", showing->cli->config_path, value->line);
        break;
    case QN_SOURCE_ENVIRONMENT:
        qn_variable_name(is_global ? "" : showing->cli->where, option, variable);
        (void)snprintf(out, VALUE_SIZE, "%s",
                       option != &qn_args_globals[QN_GLOBAL_BROKER] || is_set(variable) ? variable
                       : is_set("QUERN_CONTEXT") ? "QUERN_CONTEXT"
                                                 : "REDIS_URL");
        break;
    case QN_SOURCE_LINE:
        (void)snprintf(out, VALUE_SIZE, "command line");
        break;
    }
}

static void add(struct showing *showing, const struct qn_option *option, const char *text,
                const struct qn_option_value *value)
{
    static const char *const names[] = {[QN_SOURCE_DEFAULT] = "default",
                                        [QN_SOURCE_FILE] = "file",
                                        [QN_SOURCE_ENVIRONMENT] = "environment",
                                        [QN_SOURCE_LINE] = "command line"};
    char shown[VALUE_SIZE] = "";
    char place[VALUE_SIZE];
    describe(showing, option, value, place);
    if (text != NULL) {
        if (option == &qn_args_globals[QN_GLOBAL_BROKER]) {
            qn_url_redact(text, shown, sizeof shown); /* parameters, too */
        } else {
            mask(text, shown);
        }
    }
    if (showing->values == NULL) {
        qn_table_text(&showing->table, option->name);
        qn_table_text(&showing->table, shown);
        qn_table_text(&showing->table, place);
        return;
    }
    json_t *object = json_pack("{s:s,s:s}", "name", option->name, "source", names[value->source]);
    if (text != NULL) {
        qn_json_set_text(qn_memory_must(object), "value", shown);
    } else {
        (void)json_object_set_new(qn_memory_must(object), "value", json_null());
    }
    if (value->source != QN_SOURCE_DEFAULT && value->source != QN_SOURCE_LINE) {
        qn_json_set_text(object, "place", place);
    }
    (void)json_array_append_new(showing->values, object);
}

/* A flag that is off has a source, too. */
static void add_option(struct showing *showing, const struct qn_option *option)
{
    const struct qn_args *args = &showing->cli->args;
    const struct qn_option_value *value = qn_args_value(args, option);
    bool is_flag = option->kind == QN_OPTION_FLAG;
    bool is_set = value->source != QN_SOURCE_DEFAULT;
    if (!option->repeats || value->text == NULL) {
        add(showing, option,
            is_flag && is_set ? value->text != NULL ? "true" : "false" : value->text, value);
        return;
    }
    size_t index = (size_t)(option - args->options);
    for (size_t i = 0; i < args->repeat_count; i++) {
        if (args->repeats[i].option == index) {
            const struct qn_option_value one = {.source = value->source,
                                                .line = args->repeats[i].line};
            add(showing, option, args->repeats[i].text, &one);
        }
    }
}

/* As it was named, not as the context makes it. */
static void add_broker(struct showing *showing)
{
    struct qn_cli *cli = (struct qn_cli *)(uintptr_t)showing->cli;
    const struct qn_config_choice choice = qn_config_broker_choice(cli);
    bool is_theirs = choice.text == NULL && is_set("REDIS_URL");
    const struct qn_option_value value = {
        .source = is_theirs ? QN_SOURCE_ENVIRONMENT : choice.source, .line = choice.line};
    const char *url = NULL;
    if (choice.text != NULL && choice.option == QN_GLOBAL_CONTEXT) {
        add(showing, &qn_args_globals[QN_GLOBAL_CONTEXT], choice.text, &value);
    }
    if (qn_cli_broker_url(cli, false, &url) == QN_EXIT_OK) {
        add(showing, &qn_args_globals[QN_GLOBAL_BROKER], url, &value);
    }
}

static int print(struct showing *showing, const char *section)
{
    const struct qn_args *args = &showing->cli->args;
    static const enum qn_global globals[] = {QN_GLOBAL_JSON, QN_GLOBAL_NO_RETRY};
    add_broker(showing);
    for (size_t i = 0; i < QN_COUNT_OF(globals); i++) {
        add_option(showing, &qn_args_globals[globals[i]]);
    }
    for (size_t i = 0; i < args->option_count; i++) {
        add_option(showing, &args->options[i]);
    }
    if (showing->values == NULL) {
        qn_table_print(&showing->table);
        return QN_EXIT_OK;
    }
    return qn_json_print(json_pack("{s:s,s:s?,s:o}", "verb", section, "file",
                                   showing->cli->config_path, "values", showing->values));
}

static int show_verb(struct qn_cli *cli, struct qn_cli *other)
{
    static const struct qn_column columns[] = {
        {.title = "OPTION"}, {.title = "VALUE", .flexible = true}, {.title = "SOURCE"}};
    struct showing showing = {.cli = other, .values = cli->json ? json_array() : NULL};
    if (!qn_args_parse(&other->args, other->verb->options, other->verb->option_count)) {
        return qn_cli_usage(cli, "%s", other->args.problem);
    }
    if (!qn_config_apply(other)) {
        qn_cli_message(cli, "%s", other->config->why);
        return QN_EXIT_CONFIG;
    }
    qn_table_init(&showing.table, columns, QN_COUNT_OF(columns));
    int exit_code = print(&showing, other->where);
    qn_table_finish(&showing.table);
    return exit_code;
}

/* The words of the verb: one or two, and behind them those of its command line. */
static int find_verb(const struct qn_cli *cli, const struct qn_noun **ret_noun,
                     const struct qn_verb **ret_verb, size_t *ret_used)
{
    char name[sizeof cli->where];
    const char *first = qn_args_operand(&cli->args, 0);
    const char *second = qn_args_operand(&cli->args, 1);
    (void)snprintf(name, sizeof name, "%s %s", first, second != NULL ? second : "");
    *ret_used = 2;
    if (second != NULL && qn_section_find_verb(cli, name, ret_noun, ret_verb)) {
        return QN_EXIT_OK;
    }
    *ret_used = 1;
    if (qn_section_find_verb(cli, first, ret_noun, ret_verb)) {
        return QN_EXIT_OK;
    }
    return qn_cli_usage(cli, "'%s%s%s' is no verb that reads a configuration", first,
                        second != NULL ? " " : "", second != NULL ? second : "");
}

static int run_show(struct qn_cli *cli)
{
    const struct qn_noun *noun = &qn_noun_stats; /* without options of its own */
    const struct qn_verb *verb = &qn_noun_stats.verbs[0];
    size_t used = 0;
    if (qn_args_operand(&cli->args, 0) != NULL) {
        int exit_code = find_verb(cli, &noun, &verb, &used);
        if (exit_code != QN_EXIT_OK) {
            return exit_code;
        }
    }
    if (!qn_config_read(cli)) {
        qn_cli_message(cli, "%s", cli->config->why);
        return QN_EXIT_CONFIG;
    }
    struct qn_cli other;
    begin(&other, cli, noun, verb);
    size_t count = cli->args.operand_count - used;
    char **words = qn_memory_must(qn_alloc_zero(count + 2, sizeof *words));
    words[0] = cli->args.argv[0];
    for (size_t i = 0; i < count; i++) {
        words[i + 1] = (char *)(uintptr_t)qn_args_operand(&cli->args, used + i);
    }
    qn_args_init(&other.args, (int)count + 1, words);
    for (size_t i = 0; i < QN_GLOBAL_COUNT; i++) {
        other.args.globals[i] = cli->args.globals[i];
    }
    other.args.globals[QN_GLOBAL_JSON] = (struct qn_option_value){.text = NULL};
    int exit_code = show_verb(cli, &other);
    end(&other);
    qn_free(words);
    return exit_code;
}

static const struct qn_verb verbs[] = {
    {.name = "check",
     .operands = "[FILE]",
     .summary = "whether a configuration file can be used; 78: it cannot",
     .about = "Without FILE: the one that commands would read. Each section is read as its verb\n"
              "would, its values are checked, and no broker is opened.",
     .example = "  quern config check /etc/quern/quern.conf",
     .operand_max = 1,
     .run = run_check,
     .unconfigured = true},
    {.name = "show",
     .operands = "[VERB [-- OPTIONS]]",
     .summary = "the values that a verb would have, and where each comes from",
     .about = "From the command line, which stands behind --, the environment (its variable),\n"
              "the file (PATH:LINE), or the default. Passwords of broker URLs are not shown,\n"
              "commands are shown as they are.",
     .example = "  quern config show work\n  quern config show schedule run -- --zone UTC",
     .operand_max = 64,
     .run = run_show,
     .unconfigured = true},
};
const struct qn_noun qn_noun_config = {
    "config", "check the configuration, show where values come from", verbs, QN_COUNT_OF(verbs)};
