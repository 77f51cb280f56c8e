/* SPDX-License-Identifier: MIT */
/* trash_entry.c - the hash of a deleted task: its key, and what the places of the task had of it
 * (lib_trash.lua). */
#include <string.h>

#include "base/text/number.h"
#include "broker/redis/inspect/inspect.h"
#include "broker/redis/schema/keys.h"
#include "task/lifecycle.h"

void qn_trash_entry_key(struct qn_pipeline *pipeline, const char *queue,
                        const struct qn_task_entry *entry)
{
    const char *prefix =
        qn_arena_printf(pipeline->arena, QN_KEY_ROOT "%s" QN_KEY_NAME QN_KEY_TRASH ":", queue);
    size_t prefix_size = prefix == NULL ? 0 : strlen(prefix);
    char *key = qn_arena_alloc(pipeline->arena, prefix_size + entry->id_size + 1);
    if (prefix == NULL || key == NULL) {
        qn_pipeline_nomem(pipeline);
        return;
    }
    memcpy(key, prefix, prefix_size);
    memcpy(key + prefix_size, entry->id, entry->id_size);
    qn_pipeline_bytes(pipeline, key, prefix_size + entry->id_size);
}

enum { UNTIL, SIZE, SCORE, DUE, LOCK_UNTIL, NUMBER_COUNT };

bool qn_trash_entry_read(const char *text, size_t size, struct qn_place *place,
                         struct qn_task_entry *entry)
{
    struct qn_cursor at = {text, text + size};
    uint64_t numbers[NUMBER_COUNT] = {0};
    char word[16] = "";
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        if (!qn_number_take(&at, &numbers[i]) || !qn_number_take_char(&at, ' ')) {
            return false;
        }
    }
    size_t word_size = 0;
    while (at.at + word_size < at.end && at.at[word_size] != ' ') {
        word_size++;
    }
    if (word_size >= sizeof word) {
        return false;
    }
    memcpy(word, at.at, word_size);
    place->state = qn_lifecycle_parse(word);
    int64_t most_s = QN_MOMENT_MS_MAX / 1000;
    entry->score = numbers[SCORE] < (uint64_t)most_s ? (int64_t)numbers[SCORE] : most_s;
    int64_t due_ms =
        numbers[DUE] < (uint64_t)QN_MOMENT_MS_MAX ? (int64_t)numbers[DUE] : QN_MOMENT_MS_MAX;
    bool is_exact = due_ms > 0 && (due_ms + 999) / 1000 == entry->score;
    entry->at_ms = is_exact ? due_ms : entry->score * 1000;
    return place->state != 0;
}
