/* SPDX-License-Identifier: MIT */
/* hint.c - words that people bring along from other programs, and the verb of quern for each. */
#include "cli/hint.h"

#include <stddef.h>
#include <string.h>

#define HINT_COUNT (sizeof hints / sizeof hints[0])

static const struct {
    const char *noun;
    const char *word;
    const char *instead; /* behind "quern " */
} hints[] = {
    {"", "add", "enqueue"},
    {"", "archive", "task archive"},
    {"", "cancel", "task cancel"},
    {"", "delete", "task delete"},
    {"", "errors", "error list"},
    {"", "inspect", "task inspect"},
    {"", "kill", "task cancel"},
    {"", "list", "task list"},
    {"", "ls", "task list"},
    {"", "pause", "queue pause"},
    {"", "ps", "worker list"},
    {"", "purge", "task delete --all --queue QUEUE --state STATE"},
    {"", "push", "enqueue"},
    {"", "requeue", "task run"},
    {"", "resume", "queue resume"},
    {"", "retry", "task run"},
    {"", "rm", "task delete"},
    {"", "show", "task inspect"},
    {"", "status", "stats"},
    {"", "tail", "watch"},
    {"", "top", "worker list"},
    {"limit", "add", "limit set"},
    {"limit", "delete", "limit remove"},
    {"limit", "ls", "limit list"},
    {"limit", "rm", "limit remove"},
    {"queue", "delete", "queue remove"},
    {"queue", "ls", "queue list"},
    {"queue", "purge", "task delete --all --queue QUEUE --state STATE"},
    {"queue", "rm", "queue remove"},
    {"queue", "show", "queue inspect"},
    {"queue", "status", "queue inspect"},
    {"schedule", "delete", "schedule remove"},
    {"schedule", "inspect", "schedule show"},
    {"schedule", "ls", "schedule list"},
    {"schedule", "rm", "schedule remove"},
    {"schedule", "set", "schedule add --replace"},
    {"task", "dump", "task export"},
    {"task", "import", "enqueue --from FILE"},
    {"task", "kill", "task cancel"},
    {"task", "ls", "task list"},
    {"task", "purge", "task delete --all --queue QUEUE --state STATE"},
    {"task", "remove", "task delete"},
    {"task", "requeue", "task run"},
    {"task", "retry", "task run"},
    {"task", "rm", "task delete"},
    {"task", "show", "task inspect"},
    {"task", "status", "task inspect"},
    {"worker", "ls", "worker list"},
    {"worker", "ps", "worker list"},
    {"worker", "status", "worker list"},
    {"worker", "top", "worker list"},
};

const char *qn_hint_find(const char *noun, const char *word)
{
    for (size_t i = 0; i < HINT_COUNT; i++) {
        if (strcmp(hints[i].noun, noun) == 0 && strcmp(hints[i].word, word) == 0) {
            return hints[i].instead;
        }
    }
    return NULL;
}
