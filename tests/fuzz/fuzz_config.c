/* SPDX-License-Identifier: MIT */
/* fuzz_config.c - any bytes as quern.conf: each line is a value, the head of a section or a fault,
 * and each verb has values by it that its options allow, or a reason that names a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/secret.h"
#include "cli/config/broker.h"
#include "cli/config/config.h"
#include "lib_fuzz.h"

static const struct qn_noun *const nouns[] = {&qn_noun_work, &qn_noun_schedule, &qn_noun_stats};

static void ignore(quern_log_level level, const char *text, void *user)
{
    (void)level;
    (void)user;
    fuzz_require(text[0] != '\0');
}

static void check_ini(const struct qn_ini *ini, const char *text, size_t size)
{
    size_t before = 0;
    for (size_t i = 0; i < ini->line_count; i++) {
        const struct qn_ini_line *line = &ini->lines[i];
        fuzz_require(line->line > before && line->line <= size + 1);
        fuzz_require(line->key == NULL || (line->key >= text && line->key < text + size));
        fuzz_require(line->key == NULL || (line->value > line->key && line->value <= text + size));
        before = line->line;
    }
    before = 1;
    for (size_t i = 0; i < ini->fault_count; i++) {
        fuzz_require(ini->faults[i].line >= before && ini->faults[i].line <= size + 1);
        before = ini->faults[i].line;
    }
}

static void check_values(const struct qn_args *args)
{
    for (size_t i = 0; i < args->option_count; i++) {
        const struct qn_option *option = &args->options[i];
        const struct qn_option_value *value = &args->values[i];
        fuzz_require(value->source == QN_SOURCE_DEFAULT || value->source == QN_SOURCE_FILE);
        fuzz_require(value->text == NULL || value->source == QN_SOURCE_FILE);
        if (value->text != NULL && option->kind == QN_OPTION_COUNT && !option->never) {
            fuzz_require(value->number >= option->min);
            fuzz_require(option->max == 0 || value->number <= option->max);
        }
    }
}

static void read_as(struct qn_config *config, const struct qn_noun *noun,
                    const struct qn_verb *verb)
{
    static char *words[] = {NULL};
    struct qn_cli cli = {.nouns = nouns,
                         .noun_count = QN_COUNT_OF(nouns),
                         .noun = noun,
                         .verb = verb,
                         .config = config,
                         .config_path = config->path,
                         .on_message = ignore};
    (void)snprintf(cli.where, sizeof cli.where, "%s%s%s", noun->name,
                   verb->name[0] != '\0' ? " " : "", verb->name);
    qn_args_init(&cli.args, 0, words);
    fuzz_require(qn_args_parse(&cli.args, verb->options, verb->option_count));
    if (!qn_config_apply(&cli)) {
        fuzz_require(strncmp(config->why, "etc/x", 5) == 0);
    } else {
        check_values(&cli.args);
        if (verb->check != NULL) {
            (void)verb->check(&cli);
        }
    }
    qn_secret_free(config->url);
    config->url = NULL;
    qn_args_finish(&cli.args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "etc/x";
    char *text = fuzz_copy(data, size);
    struct qn_config config = {.path = path, .text = text};
    quern_error err = {0};
    (void)unsetenv("QUERN_BROKER");
    quern_status status = qn_ini_parse(text, size, &config.ini, &err);
    fuzz_require(status == QUERN_OK || status == QUERN_E_INVALID);
    if (status == QUERN_OK) {
        check_ini(&config.ini, text, size);
        for (size_t i = 0; i < QN_COUNT_OF(nouns); i++) {
            read_as(&config, nouns[i], &nouns[i]->verbs[0]);
        }
        for (size_t i = 0; i < config.ini.line_count && i < 8; i++) {
            const char *name = qn_config_context_name(config.ini.lines[i].section);
            if (name != NULL) {
                qn_secret_free(qn_config_broker_of(&config, name, 0));
            }
        }
        qn_ini_finish(&config.ini);
        qn_arena_finish(&config.arena);
    }
    free(text);
    return 0;
}
