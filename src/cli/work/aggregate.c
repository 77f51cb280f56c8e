/* SPDX-License-Identifier: MIT */
/* aggregate.c - shell commands as aggregators: `quern work --aggregate`.
 *
 * The members are lines of JSON on the standard input of the command; its standard output is the
 * payload of the task made of them. Only exit code 0 ends the set. There is no code for "drop": a
 * command that fails with some code of its own must not delete tasks. */
#include "cli/work/aggregate.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/memory/arena.h"
#include "base/text/buf.h"
#include "base/text/duration.h"
#include "base/text/number.h"
#include "base/text/str.h"
#include "cli/memory.h"
#include "cli/output/json.h"
#include "pool/exec/child.h"
#include "schedule/group/aggregation.h"
#include "task/limits.h"
#include "worker/run/death_text.h"
#include "worker/run/mux.h"

enum { STDERR_SIZE_MAX = 3072, KILL_AFTER_MS = 5000, INPUT_SIZE_MAX = 1 << 30 };

struct command {
    char *text; /* both owned */
    char *type; /* of the task that is made; NULL: that of its members */
};

/* --- One call -------------------------------------------------------------------------- */

/* NULL: they have several types. */
static const char *common_type(const quern_task *const *members, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(members[i]->type, members[0]->type) != 0) {
            return NULL;
        }
    }
    return members[0]->type;
}

static json_t *describe(const quern_task *member)
{
    json_t *line = qn_memory_must(json_object());
    json_t *headers = qn_memory_must(json_object());
    qn_json_set_text(line, "id", member->id);
    qn_json_set_text(line, "type", member->type);
    qn_json_set_bytes(line, "payload", member->payload, member->payload_size);
    for (size_t i = 0; i < member->header_count; i++) {
        qn_json_set_text(headers, member->headers[i].name, member->headers[i].value);
    }
    if (json_object_set_new(line, "headers", headers) != 0) {
        qn_memory_exhausted();
    }
    return line;
}

static quern_status write_members(const quern_task *const *members, size_t count,
                                  struct qn_buf *out)
{
    quern_status status = QUERN_OK;
    for (size_t i = 0; status == QUERN_OK && i < count; i++) {
        json_t *line = describe(members[i]);
        char *text = qn_memory_must(json_dumps(line, JSON_COMPACT));
        status = qn_buf_printf(out, "%s\n", text);
        free(text);
        json_decref(line);
    }
    return status;
}

static quern_outcome fail_by_end(quern_aggregation *aggregation, const struct qn_child_end *end)
{
    char text[QN_ERROR_TEXT_SIZE_MAX + 1];
    const struct qn_death_facts facts = {
        .status = end->status,
        .out_of_memory = end->out_of_memory,
        .usage = end->exited || end->cancelled ? NULL : &end->usage,
        .stderr_text = {end->stderr_text.data, end->stderr_text.size},
        .stderr_cut = end->stderr_cut,
    };
    (void)qn_death_text(&facts, text, sizeof text);
    return quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", text);
}

static quern_outcome take_output(quern_aggregation *aggregation, const char *type,
                                 const struct qn_child_end *end)
{
    if (!end->exited || end->code != 0) {
        return fail_by_end(aggregation, end);
    }
    if (end->stdout_dropped > 0) {
        return quern_aggregation_fail(aggregation, QUERN_RETRY,
                                      "the output is larger than %zu bytes", QN_PAYLOAD_SIZE_MAX);
    }
    quern_error err;
    const quern_task task = {
        .type = type, .payload = end->output.data, .payload_size = end->output.size};
    return quern_aggregation_store(aggregation, &task, &err) == QUERN_OK
               ? QUERN_DONE
               : quern_aggregation_fail(aggregation, QUERN_RETRY, "%s", err.text);
}

static quern_outcome run_with_input(quern_aggregation *aggregation, const struct command *command,
                                    const char *type, const struct qn_buf *input)
{
    struct qn_arena arena = {0};
    const char *const environment[] = {
        qn_memory_must(
            qn_arena_printf(&arena, "QUERN_QUEUE=%s", quern_aggregation_queue(aggregation))),
        qn_memory_must(
            qn_arena_printf(&arena, "QUERN_GROUP=%s", quern_aggregation_group(aggregation))),
        qn_memory_must(
            qn_arena_printf(&arena, "QUERN_AGGREGATE_COUNT=%zu", aggregation->set->count)),
        qn_memory_must(qn_arena_printf(&arena, "QUERN_AGGREGATE_TYPE=%s", type)),
        NULL,
    };
    int cancel_fd = quern_aggregation_cancel_fd(aggregation);
    const struct qn_child_spec spec = {
        .command = command->text,
        .environment = environment,
        .input = input->data,
        .input_size = input->size,
        .stdout_size_max = QN_PAYLOAD_SIZE_MAX,
        .stderr_size_max = STDERR_SIZE_MAX,
        .kill_after_ms = KILL_AFTER_MS,
        .launcher = aggregation->launcher,
        .cancel_fd = cancel_fd,
        .abandoned = &aggregation->abandoned,
    };
    struct qn_child_end end;
    quern_error err = {.text = "no descriptor to cancel it by"};
    quern_status status = cancel_fd < 0 ? QUERN_E_FULL : qn_child_run(&spec, &end, &err);
    qn_arena_finish(&arena);
    if (status != QUERN_OK) {
        return quern_aggregation_fail(aggregation, QUERN_RETRY, "command was not started: %s",
                                      err.text);
    }
    quern_outcome outcome = take_output(aggregation, type, &end);
    qn_child_end_finish(&end);
    return outcome;
}

static quern_outcome run_command(quern_aggregation *aggregation, const quern_task *const *members,
                                 size_t count, void *user)
{
    const struct command *command = user;
    const char *type = command->type != NULL ? command->type : common_type(members, count);
    if (type == NULL) {
        return quern_aggregation_fail(aggregation, QUERN_RETRY,
                                      "the tasks have several types: give --aggregate-type");
    }
    struct qn_buf input;
    qn_buf_init(&input, INPUT_SIZE_MAX);
    quern_outcome outcome =
        write_members(members, count, &input) == QUERN_OK
            ? run_with_input(aggregation, command, type, &input)
            : quern_aggregation_fail(aggregation, QUERN_RETRY, "no memory for the tasks as JSON");
    qn_buf_finish(&input);
    return outcome;
}

/* --- Options --------------------------------------------------------------------------- */

struct reading {
    const struct qn_cli *cli;
    struct qn_work_aggregate_options options;
};

/* The size of PATTERN in "PATTERN=..."; 0: there is none. */
static size_t pattern_size(const char *text)
{
    const char *equals = strchr(text, '=');
    return equals == NULL ? 0 : (size_t)(equals - text);
}

static bool has_pattern(const char *text, const char *pattern)
{
    size_t size = pattern_size(text);
    return size > 0 && strlen(pattern) == size && memcmp(text, pattern, size) == 0;
}

/* What an option "[PATTERN=]VALUE" gives a pattern, the last that fits; one with the pattern is
 * before those for all. NULL: nothing. */
static const char *value_for(const struct reading *reading, size_t option, const char *pattern)
{
    const char *text;
    const char *own = NULL;
    const char *all = NULL;
    for (size_t i = 0; (text = qn_args_repeat(&reading->cli->args, option, i)) != NULL; i++) {
        if (has_pattern(text, pattern)) {
            own = text + pattern_size(text) + 1;
        } else if (pattern_size(text) == 0) {
            all = text;
        }
    }
    return own != NULL ? own : all;
}

/* Each pattern must be one of --aggregate. */
static int check_patterns(const struct reading *reading, const char *name, size_t option)
{
    const struct qn_args *args = &reading->cli->args;
    const char *text;
    for (size_t i = 0; (text = qn_args_repeat(args, option, i)) != NULL; i++) {
        size_t size = pattern_size(text);
        const char *command;
        bool found = size == 0 && text[0] != '=' &&
                     qn_args_repeat(args, reading->options.aggregate, 0) != NULL;
        for (size_t k = 0; (command = qn_args_repeat(args, reading->options.aggregate, k)) != NULL;
             k++) {
            found = found ||
                    (size > 0 && pattern_size(command) == size && memcmp(text, command, size) == 0);
        }
        if (!found) {
            return qn_cli_usage(reading->cli, "--%s: '%s' fits no --aggregate PATTERN=COMMAND",
                                name, text);
        }
    }
    return QN_EXIT_OK;
}

static int read_duration(const struct reading *reading, size_t option, const char *pattern,
                         int64_t *ret_ms)
{
    quern_error err;
    const char *text = value_for(reading, option, pattern);
    const char *name = option == reading->options.grace ? "group-grace" : "group-max-delay";
    if (text != NULL && qn_duration_parse(text, ret_ms, &err) != QUERN_OK) {
        return qn_cli_usage(reading->cli, "--%s: %s", name, err.text);
    }
    if (text != NULL && *ret_ms == 0) { /* the default in C, "at once" to many */
        return qn_cli_usage(reading->cli, "--%s: 0 is refused: leave it out for the default", name);
    }
    return QN_EXIT_OK;
}

static int read_size(const struct reading *reading, const char *pattern, int64_t *ret_size)
{
    const char *text = value_for(reading, reading->options.max_size, pattern);
    if (text == NULL) {
        return QN_EXIT_OK;
    }
    struct qn_cursor cursor = {text, text + strlen(text)};
    uint64_t size = 0;
    if (!qn_number_take(&cursor, &size) || cursor.at != cursor.end || size == 0 ||
        size > QN_GROUP_SET_MAX) {
        return qn_cli_usage(reading->cli, "--group-max-size: '%s' is not 1 to %d", text,
                            QN_GROUP_SET_MAX);
    }
    *ret_size = (int64_t)size;
    return QN_EXIT_OK;
}

static void free_command(void *user)
{
    struct command *command = user;
    qn_free(command->text);
    qn_free(command->type);
    qn_free(command);
}

static int add(const struct reading *reading, const char *pattern, const char *text, quern_mux *mux)
{
    quern_group_options options = {0};
    quern_error err;
    int exit_code = read_duration(reading, reading->options.grace, pattern, &options.grace_ms);
    if (exit_code == QN_EXIT_OK) {
        exit_code =
            read_duration(reading, reading->options.max_delay, pattern, &options.max_delay_ms);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = read_size(reading, pattern, &options.max_size);
    }
    if (exit_code != QN_EXIT_OK) {
        return exit_code;
    }
    struct command *command = qn_memory_must(qn_alloc_zero(1, sizeof *command));
    const char *type = value_for(reading, reading->options.type, pattern);
    command->text = qn_memory_must(qn_str_dup(text));
    command->type = type != NULL ? qn_memory_must(qn_str_dup(type)) : NULL;
    struct qn_group_entry entry = {
        .aggregator = run_command,
        .user = command,
        .free_user = free_command,
    };
    quern_status status =
        qn_group_options_read((struct qn_bytes){&options, sizeof options}, &entry.options, &err);
    if (status == QUERN_OK) {
        status = qn_mux_add_aggregator(mux, pattern, &entry, &err);
    }
    if (status != QUERN_OK) {
        free_command(command);
        return qn_cli_usage(reading->cli, "--aggregate: %s", err.text);
    }
    return QN_EXIT_OK;
}

int qn_work_aggregate_read(const struct qn_cli *cli, struct qn_work_aggregate_options options,
                           quern_mux *mux)
{
    const struct reading reading = {cli, options};
    const char *text;
    int exit_code = check_patterns(&reading, "aggregate-type", options.type);
    if (exit_code == QN_EXIT_OK) {
        exit_code = check_patterns(&reading, "group-grace", options.grace);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = check_patterns(&reading, "group-max-delay", options.max_delay);
    }
    if (exit_code == QN_EXIT_OK) {
        exit_code = check_patterns(&reading, "group-max-size", options.max_size);
    }
    for (size_t i = 0; exit_code == QN_EXIT_OK &&
                       (text = qn_args_repeat(&cli->args, options.aggregate, i)) != NULL;
         i++) {
        size_t size = pattern_size(text);
        if (size == 0 || qn_str_blank(text + size + 1)) {
            return qn_cli_usage(cli, "--aggregate: '%s' is not PATTERN=COMMAND", text);
        }
        char *pattern = qn_memory_must(qn_str_dup(text));
        pattern[size] = '\0';
        exit_code = add(&reading, pattern, text + size + 1, mux);
        qn_free(pattern);
    }
    return exit_code;
}
