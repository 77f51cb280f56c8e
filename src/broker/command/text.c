/* SPDX-License-Identifier: MIT */
/* text.c - the texts of commands and answers.
 *
 * A command is "1 WORKER REQUEST ORDER NUMBER"; the 1 is the version, and the request has 16
 * hexadecimal digits. What is not exactly so is no command: anyone with rights on the channel may
 * send anything. */
#include "broker/command/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_DIGITS = 16, WORDS = 5 };

static const char *const names[] = {
    [QUERN_ORDER_QUIET] = "quiet",         [QUERN_ORDER_RESUME] = "resume",
    [QUERN_ORDER_STOP] = "stop",           [QUERN_ORDER_RESIZE] = "resize",
    [QUERN_ORDER_LOG_LEVEL] = "log-level",
};
#define NAME_COUNT (sizeof names / sizeof names[0])

const char *qn_command_name(quern_worker_order order)
{
    return (size_t)order < NAME_COUNT ? names[order] : NULL;
}

void qn_command_write(const struct qn_command *command, char out[QN_COMMAND_SIZE_MAX])
{
    (void)snprintf(out, QN_COMMAND_SIZE_MAX, "1 %s %016" PRIx64 " %s %" PRIu32, command->worker_id,
                   command->request, qn_command_name(command->order), command->number);
}

/* 0: it is none. */
static uint64_t read_request(const char *word)
{
    bool is_one =
        strlen(word) == REQUEST_DIGITS && strspn(word, "0123456789abcdef") == REQUEST_DIGITS;
    return is_one ? strtoull(word, NULL, 16) : 0;
}

static bool read_number(const char *word, uint32_t *ret_number)
{
    size_t size = strlen(word);
    bool is_one = size > 0 && size < 10 && strspn(word, "0123456789") == size;
    *ret_number = is_one ? (uint32_t)strtoul(word, NULL, 10) : 0;
    return is_one;
}

static bool read_order(const char *word, quern_worker_order *ret_order)
{
    for (size_t i = 1; i < NAME_COUNT; i++) {
        if (strcmp(word, names[i]) == 0) {
            *ret_order = (quern_worker_order)i;
            return true;
        }
    }
    return false;
}

bool qn_command_read(const char *text, struct qn_command *ret_command)
{
    char copy[QN_COMMAND_SIZE_MAX];
    const char *words[WORDS] = {NULL};
    size_t count = 0;
    if (strlen(text) >= sizeof copy) {
        return false;
    }
    char *rest = memcpy(copy, text, strlen(text) + 1);
    while (rest != NULL && count < WORDS) {
        words[count++] = strsep(&rest, " ");
    }
    if (count < WORDS || rest != NULL || strcmp(words[0], "1") != 0 || words[1][0] == '\0' ||
        strlen(words[1]) >= sizeof ret_command->worker_id) {
        return false;
    }
    (void)snprintf(ret_command->worker_id, sizeof ret_command->worker_id, "%s", words[1]);
    ret_command->request = read_request(words[2]);
    return ret_command->request != 0 && read_order(words[3], &ret_command->order) &&
           read_number(words[4], &ret_command->number);
}

void qn_command_write_answer(const struct qn_command_answer *answer, char *out, size_t size)
{
    if (answer->request == 0) {
        (void)snprintf(out, size, "%s", QN_COMMAND_NONE);
    } else {
        (void)snprintf(out, size, "%016" PRIx64 " %s", answer->request, answer->text);
    }
}

/* The state is "HUNG AGE ANSWER": an older worker writes no third word. */
void qn_command_read_answer(const char *served, struct qn_command_answer *ret_answer)
{
    *ret_answer = (struct qn_command_answer){.is_known = false};
    const char *state = strchr(served, QN_HEARTBEAT_SEPARATOR);
    const char *age = state == NULL ? NULL : strchr(state, ' ');
    const char *answer = age == NULL ? NULL : strchr(age + 1, ' ');
    const char *end = state == NULL ? NULL : strchr(state + 1, QN_HEARTBEAT_SEPARATOR);
    if (answer == NULL || (end != NULL && answer > end)) {
        return;
    }
    answer++;
    size_t size = end == NULL ? strlen(answer) : (size_t)(end - answer);
    char request[REQUEST_DIGITS + 1] = "";
    ret_answer->is_known = true;
    if (size > REQUEST_DIGITS && answer[REQUEST_DIGITS] == ' ') {
        (void)memcpy(request, answer, REQUEST_DIGITS);
        ret_answer->request = read_request(request);
        (void)snprintf(ret_answer->text, sizeof ret_answer->text, "%.*s",
                       (int)(size - REQUEST_DIGITS - 1), answer + REQUEST_DIGITS + 1);
    }
}
