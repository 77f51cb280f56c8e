/* SPDX-License-Identifier: MIT */
/* broker.c - see broker.h.
 *
 * --broker and --context exclude each other, and so do their variables, and their lines in one
 * section: two brokers that are named equally strongly are a mistake. */
#include "cli/config/broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/secret.h"
#include "base/text/str.h"
#include "base/text/url.h"
#include "cli/memory.h"

#define PREFIX "context "
#define URL_SIZE_MAX 65536

const char *qn_config_context_name(const char *section)
{
    bool is_one = qn_str_starts_with(section, PREFIX);
    const char *name = is_one ? section + strlen(PREFIX) : section;
    name += strspn(name, " \t");
    return is_one && *name != '\0' ? name : NULL;
}

bool qn_config_broker_has_password(const char *url)
{
    const char *authority = strstr(url, "://");
    const char *sign = authority == NULL ? NULL : strrchr(authority, '@');
    const char *colon =
        sign == NULL ? NULL : memchr(authority + 3, ':', (size_t)(sign - authority - 3));
    return colon != NULL && colon + 1 < sign;
}

/* --- Contexts ---------------------------------------------------------------------------- */

static bool is_of(const struct qn_ini_line *line, const char *context)
{
    const char *name = qn_config_context_name(line->section);
    return name != NULL && strcmp(name, context) == 0;
}

static const char *nearest_context(const struct qn_config *config, const char *context)
{
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < config->ini.line_count && count < QN_COUNT_OF(names); i++) {
        const struct qn_ini_line *line = &config->ini.lines[i];
        const char *name = line->key == NULL ? qn_config_context_name(line->section) : NULL;
        if (name != NULL) {
            names[count++] = name;
        }
    }
    return qn_cli_nearest(context, names, count);
}

/* "PATH: ", or "PATH:LINE: ", and that there is no such context. */
static char *refuse_context(struct qn_config *config, const char *context, size_t line)
{
    char place[32] = "";
    const char *nearest = nearest_context(config, context);
    if (config->path == NULL) {
        (void)snprintf(config->why, sizeof config->why,
                       "context '%.100s': there is no configuration file; see --config", context);
        return NULL;
    }
    if (line > 0) {
        (void)snprintf(place, sizeof place, ":%zu", line);
    }
    (void)snprintf(config->why, sizeof config->why,
                   "%.600s%s: there is no [context %.100s]%s%.100s%s", config->path, place, context,
                   nearest == NULL ? "" : "; did you mean '", nearest == NULL ? "" : nearest,
                   nearest == NULL ? "" : "'?");
    return NULL;
}

static bool is_path(const char *name)
{
    static const char *const names[] = {"password_file", "sentinel_password_file", "ca", "cert",
                                        "key"};
    for (size_t i = 0; i < QN_COUNT_OF(names); i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* A URL that grows in memory that no core dump has. */
struct draft {
    char *url;
    size_t used;
    bool is_full;
};

static void add_char(struct draft *draft, char c)
{
    if (draft->used + 1 < URL_SIZE_MAX) {
        draft->url[draft->used++] = c;
    } else {
        draft->is_full = true;
    }
}

static void add_text(struct draft *draft, const char *text, size_t size, bool encodes)
{
    static const char hex[] = "0123456789ABCDEF";
    for (const char *end = text + size; text < end; text++) {
        unsigned char c = (unsigned char)*text;
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || strchr("-_./", *text) != NULL;
        if (!encodes || is_plain) {
            add_char(draft, *text);
        } else {
            add_char(draft, '%');
            add_char(draft, hex[c >> 4]);
            add_char(draft, hex[c & 15]);
        }
    }
}

static void add_param(struct draft *draft, const struct qn_config *config,
                      const struct qn_ini_line *line)
{
    char name[64];
    size_t size = 0;
    for (; line->key[size] != '\0' && size + 1 < sizeof name; size++) {
        name[size] = (char)(line->key[size] == '-' ? '_' : line->key[size]);
    }
    name[size] = '\0';
    add_char(draft, strchr(draft->url, '?') == NULL ? '?' : '&');
    add_text(draft, name, size, true);
    add_char(draft, '=');
    const char *slash = strrchr(config->path, '/');
    if (is_path(name) && line->value[0] != '/' && slash != NULL) {
        add_text(draft, config->path, (size_t)(slash - config->path + 1), true);
    }
    add_text(draft, line->value, strlen(line->value), true);
}

/* The URL of the context alone, from its line; NULL: it has none, or two. */
static const char *find_url(struct qn_config *config, const char *context, size_t head)
{
    const char *found = NULL;
    for (size_t i = 0; i < config->ini.line_count; i++) {
        const struct qn_ini_line *line = &config->ini.lines[i];
        if (!is_of(line, context) || line->key == NULL) {
            continue;
        }
        if (line->value[0] == '\0' || (found != NULL && strcmp(line->key, "broker") == 0)) {
            (void)qn_section_refuse(config, line->line,
                                    line->value[0] == '\0' ? "%.100s: it has no value"
                                                           : "%.100s is given twice",
                                    line->key);
            return NULL;
        }
        found = strcmp(line->key, "broker") == 0 ? line->value : found;
    }
    if (found == NULL) {
        (void)qn_section_refuse(config, head, "[context %.200s] has no broker", context);
    }
    return found;
}

char *qn_config_broker_of(struct qn_config *config, const char *context, size_t line)
{
    const struct qn_ini *ini = &config->ini;
    size_t head = 0;
    for (size_t i = 0; i < ini->line_count; i++) {
        head = head == 0 && is_of(&ini->lines[i], context) ? ini->lines[i].line : head;
    }
    for (size_t i = 0; i < ini->fault_count; i++) {
        const char *name = qn_config_context_name(ini->faults[i].section);
        if (name != NULL && strcmp(name, context) == 0) {
            (void)qn_section_refuse(config, ini->faults[i].line, "%s", ini->faults[i].text);
            return NULL;
        }
    }
    if (head == 0) {
        return refuse_context(config, context, line);
    }
    const char *url = find_url(config, context, head);
    if (url == NULL) {
        return NULL;
    }
    struct draft draft = {.url = qn_memory_must(qn_secret_alloc(URL_SIZE_MAX))};
    const char *next = qn_url_next(url); /* parameters are those of the first of a list */
    size_t size = next == NULL ? strlen(url) : (size_t)(next - url - 1);
    add_text(&draft, url, size, false);
    for (size_t i = 0; i < ini->line_count; i++) {
        const struct qn_ini_line *param = &ini->lines[i];
        if (param->key != NULL && is_of(param, context) && strcmp(param->key, "broker") != 0) {
            add_param(&draft, config, param);
        }
    }
    add_text(&draft, url + size, strlen(url + size), false);
    if (draft.is_full) {
        qn_secret_free(draft.url);
        (void)qn_section_refuse(config, head, "[context %.200s] is too long", context);
        return NULL;
    }
    return draft.url;
}

/* --- The choice -------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static struct qn_config_choice in_file(const struct qn_cli *cli, const char *section,
                                       enum qn_global option)
{
    const struct qn_ini *ini = &cli->config->ini;
    struct qn_config_choice choice = {.option = option, .source = QN_SOURCE_FILE};
    for (size_t i = 0; i < ini->line_count; i++) {
        const struct qn_ini_line *line = &ini->lines[i];
        if (line->key != NULL && strcmp(line->key, qn_args_globals[option].name) == 0 &&
            strcmp(qn_section_name(line->section), section) == 0) {
            choice.text = line->value;
            choice.line = line->line;
        }
    }
    return choice;
}

/* With `source`, of both options; text is NULL where it is not given. */
static struct qn_config_choice look(const struct qn_cli *cli, enum qn_global option,
                                    enum qn_source source, const char *section)
{
    bool is_broker = option == QN_GLOBAL_BROKER;
    struct qn_config_choice choice = {.option = option, .source = source};
    switch (source) {
    case QN_SOURCE_DEFAULT:
        break;
    case QN_SOURCE_FILE:
        return in_file(cli, section, option);
    case QN_SOURCE_ENVIRONMENT:
        choice.text =
            cli->config->only_file ? NULL : variable(is_broker ? "QUERN_BROKER" : "QUERN_CONTEXT");
        break;
    case QN_SOURCE_LINE:
        choice.text = cli->args.globals[option].text;
        break;
    }
    return choice;
}

struct places {
    enum qn_source source;
    bool is_of_verb;
};
static const struct places places[] = {{QN_SOURCE_LINE, false},
                                       {QN_SOURCE_ENVIRONMENT, false},
                                       {QN_SOURCE_FILE, true},
                                       {QN_SOURCE_FILE, false}};

struct qn_config_choice qn_config_broker_choice(const struct qn_cli *cli)
{
    for (size_t i = 0; i < QN_COUNT_OF(places); i++) {
        const char *section = places[i].is_of_verb ? cli->where : "";
        struct qn_config_choice broker = look(cli, QN_GLOBAL_BROKER, places[i].source, section);
        struct qn_config_choice context = look(cli, QN_GLOBAL_CONTEXT, places[i].source, section);
        if (broker.text != NULL || context.text != NULL) {
            return broker.text != NULL ? broker : context;
        }
    }
    return (struct qn_config_choice){.option = QN_GLOBAL_BROKER};
}

static bool refuse_both(struct qn_config *config, enum qn_source source, size_t line)
{
    if (source == QN_SOURCE_FILE) {
        return qn_section_refuse(config, line, "broker and context exclude each other");
    }
    (void)snprintf(config->why, sizeof config->why, "%s exclude each other",
                   source == QN_SOURCE_LINE ? "--broker and --context"
                                            : "QUERN_BROKER and QUERN_CONTEXT");
    return false;
}

/* Whether broker and context are named at once, by what names the broker at all. */
static bool names_both(const struct qn_cli *cli, const struct qn_config_choice *choice)
{
    if (choice->option == QN_GLOBAL_CONTEXT || choice->text == NULL) {
        return false;
    }
    bool is_of_verb = choice->source == QN_SOURCE_FILE &&
                      in_file(cli, cli->where, QN_GLOBAL_BROKER).text == choice->text;
    return look(cli, QN_GLOBAL_CONTEXT, choice->source, is_of_verb ? cli->where : "").text != NULL;
}

bool qn_config_broker_choose(struct qn_cli *cli)
{
    struct qn_config *config = cli->config;
    struct qn_config_choice choice = qn_config_broker_choice(cli);
    if (names_both(cli, &choice)) {
        return refuse_both(config, choice.source, choice.line);
    }
    if (choice.text == NULL) {
        return true;
    }
    if (choice.text[0] == '\0') {
        return qn_section_refuse(config, choice.line, "%s: it has no value",
                                 qn_args_globals[choice.option].name);
    }
    if (choice.option == QN_GLOBAL_CONTEXT) {
        config->url = qn_config_broker_of(config, choice.text, choice.line);
    } else if (choice.source == QN_SOURCE_FILE) {
        config->url = qn_memory_must(qn_secret_strdup(choice.text));
    } else {
        return true; /* --broker and QUERN_BROKER are read by broker_url.c */
    }
    cli->configured_url = config->url;
    return config->url != NULL;
}
