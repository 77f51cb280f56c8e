/* SPDX-License-Identifier: MIT */
/* loop_answer.c - reads one line of a loop process: a JSON object.
 *
 * The process is hostile: it may write anything. A field that we do not know is ignored, so that
 * later versions may have more; a known one of a wrong type is an error, because a typing mistake
 * must not change the outcome of a task without a word. */
#include "cli/loop/loop_answer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/duration.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "cli/output/base64.h"
#include "task/limits.h"

static const char *const outcomes[] = {[QUERN_DONE] = "done",
                                       [QUERN_RETRY] = "retry",
                                       [QUERN_ARCHIVE] = "archive",
                                       [QUERN_DROP] = "drop",
                                       [QUERN_SNOOZE] = "snooze"};

/* `what` is cut where it is long. */
static bool wrong(struct qn_loop_answer *answer, const char *why, const char *what)
{
    char text[192];
    answer->kind = QN_LOOP_WRONG;
    (void)snprintf(text, sizeof text, "%s%s%.100s%s", why, what != NULL ? " '" : "",
                   what != NULL ? what : "", what != NULL ? "'" : "");
    (void)qn_utf8_sanitize(text, strlen(text), answer->why, sizeof answer->why);
    return true;
}

/* Copies of jansson's strings are ours: its memory is that of the line. */
static char *copy(const char *data, size_t size)
{
    char *bytes = qn_alloc(size + 1);
    if (bytes != NULL) {
        memcpy(bytes, data, size);
        bytes[size] = '\0';
    }
    return bytes;
}

/* JSON may have a NUL in a text ("\\u0000"): then it is none of the words that we compare with. */
static bool is_word(const json_t *text)
{
    return json_is_string(text) && strlen(json_string_value(text)) == json_string_length(text);
}

static bool read_progress(json_t *line, json_t *percent, struct qn_loop_answer *answer)
{
    json_t *note = json_object_get(line, "note");
    json_int_t number = json_integer_value(percent);
    if (!json_is_null(percent) && (!json_is_integer(percent) || number < 0 || number > 100)) {
        return wrong(answer, "its progress is not 0 to 100", NULL);
    }
    if (note != NULL && !json_is_string(note)) {
        return wrong(answer, "the note of its progress is no text", NULL);
    }
    answer->kind = QN_LOOP_PROGRESS;
    answer->progress.percent = json_is_null(percent) ? -1 : (int32_t)number;
    (void)qn_utf8_sanitize(json_string_value(note), json_string_length(note), answer->progress.note,
                           sizeof answer->progress.note);
    return true;
}

static bool read_outcome(json_t *line, struct qn_loop_answer *answer)
{
    json_t *outcome = json_object_get(line, "outcome");
    if (!json_is_string(outcome)) {
        return wrong(answer, "its answer has no outcome", NULL);
    }
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        if (is_word(outcome) && strcmp(json_string_value(outcome), outcomes[i]) == 0) {
            answer->outcome = (int)i;
            return true;
        }
    }
    return wrong(answer, "it answered with the unknown outcome", json_string_value(outcome));
}

/* "30s", or a number of milliseconds. */
static bool read_delay(json_t *line, struct qn_loop_answer *answer)
{
    json_t *delay = json_object_get(line, "delay");
    json_t *delay_ms = json_object_get(line, "delay_ms");
    if (delay_ms != NULL) {
        answer->delay_ms = json_integer_value(delay_ms);
        if (!json_is_integer(delay_ms) || answer->delay_ms < 0 ||
            answer->delay_ms > QN_DURATION_MS_MAX) {
            return wrong(answer, "its delay_ms is no number of milliseconds", NULL);
        }
    } else if (delay != NULL) {
        if (!is_word(delay) ||
            qn_duration_parse(json_string_value(delay), &answer->delay_ms, NULL) != QUERN_OK) {
            return wrong(answer, "its delay is no duration such as \"30s\"", NULL);
        }
    }
    return true;
}

static bool read_class(json_t *line, struct qn_loop_answer *answer)
{
    json_t *name = json_object_get(line, "class");
    if (name == NULL || json_is_null(name)) {
        return true;
    }
    if (!is_word(name) || !qn_handler_options_is_class(json_string_value(name))) {
        return wrong(answer, "its class is not 1 to 64 bytes without spaces", NULL);
    }
    (void)snprintf(answer->class_name, sizeof answer->class_name, "%s", json_string_value(name));
    return true;
}

static bool read_error(json_t *line, struct qn_loop_answer *answer)
{
    json_t *error = json_object_get(line, "error");
    if (error == NULL || json_is_null(error)) {
        return true;
    }
    if (!json_is_string(error)) {
        return wrong(answer, "its error is no text", NULL);
    }
    answer->error = copy(json_string_value(error), json_string_length(error));
    return answer->error != NULL;
}

static bool read_base64(json_t *text, struct qn_loop_answer *answer)
{
    size_t size = json_string_length(text);
    if (!json_is_string(text)) {
        return wrong(answer, "its result_base64 is no base64", NULL);
    }
    answer->result = qn_alloc(size / 4 * 3 + 3);
    if (answer->result == NULL) {
        return false;
    }
    if (!qn_base64_decode(json_string_value(text), size, answer->result, &answer->result_size)) {
        return wrong(answer, "its result_base64 is no base64", NULL);
    }
    return true;
}

/* A text is stored as its bytes, any other value as JSON. */
static bool read_result(json_t *line, struct qn_loop_answer *answer)
{
    json_t *result = json_object_get(line, "result");
    json_t *bytes = json_object_get(line, "result_base64");
    if (bytes != NULL) {
        return read_base64(bytes, answer);
    }
    if (result == NULL || json_is_null(result)) {
        return true;
    }
    if (json_is_string(result)) {
        answer->result_size = json_string_length(result);
        answer->result = copy(json_string_value(result), answer->result_size);
        return answer->result != NULL;
    }
    size_t size = json_dumpb(result, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    answer->result = qn_alloc(size + 1);
    if (answer->result == NULL) {
        return false;
    }
    answer->result_size = json_dumpb(result, answer->result, size, JSON_COMPACT | JSON_ENCODE_ANY);
    return true;
}

static bool read_answer(json_t *line, json_t *id, const char *expected,
                        struct qn_loop_answer *answer)
{
    if (!json_is_string(id)) {
        return wrong(answer, "the id of its answer is no text", NULL);
    }
    if (expected == NULL || !is_word(id) || strcmp(json_string_value(id), expected) != 0) {
        return wrong(answer, "it answered for another task,", json_string_value(id));
    }
    answer->kind = QN_LOOP_ANSWER;
    bool (*const readers[])(json_t *, struct qn_loop_answer *) = {
        read_outcome, read_delay, read_class, read_error, read_result};
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (!readers[i](line, answer)) {
            return false;
        }
        if (answer->kind == QN_LOOP_WRONG) {
            return true;
        }
    }
    return true;
}

static bool read_object(json_t *line, const char *id, struct qn_loop_answer *answer)
{
    json_t *found;
    if ((found = json_object_get(line, "id")) != NULL &&
        json_object_get(line, "progress") == NULL) {
        return read_answer(line, found, id, answer);
    }
    if ((found = json_object_get(line, "progress")) != NULL) {
        return id != NULL ? read_progress(line, found, answer)
                          : wrong(answer, "it wrote progress of no task", NULL);
    }
    if (json_is_true(json_object_get(line, "ready"))) {
        answer->kind = QN_LOOP_READY;
        return id == NULL || wrong(answer, "it was ready a second time", NULL);
    }
    return wrong(answer, "it wrote an object without id, progress or ready", NULL);
}

bool qn_loop_answer_read(struct qn_bytes line, const char *id, struct qn_loop_answer *ret_answer)
{
    struct qn_loop_answer answer = {.delay_ms = -1, .progress.percent = -1};
    json_error_t error;
    json_t *object =
        json_loadb(line.data, line.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    bool ok;
    if (object == NULL && json_error_code(&error) == json_error_out_of_memory) {
        ok = false;
    } else if (object == NULL) {
        char start[64];
        size_t size = line.size < sizeof start - 1 ? line.size : sizeof start - 1;
        (void)qn_utf8_sanitize(line.data, size, start, sizeof start);
        ok = wrong(&answer, "it wrote a line that is no JSON object:", start);
    } else if (!json_is_object(object)) {
        ok = wrong(&answer, "it wrote a line that is no JSON object", NULL);
    } else {
        ok = read_object(object, id, &answer);
    }
    json_decref(object);
    if (!ok) {
        qn_loop_answer_finish(&answer);
        return false;
    }
    *ret_answer = answer;
    return true;
}

void qn_loop_answer_finish(struct qn_loop_answer *answer)
{
    qn_free(answer->error);
    qn_free(answer->result);
    answer->error = NULL;
    answer->result = NULL;
}
