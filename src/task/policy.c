/* SPDX-License-Identifier: MIT */
/* policy.c - the words for the policies of unique tasks. */
#include "task/policy.h"

#include <stddef.h>
#include <string.h>

#include "quern/task.h"

static const char *const untils[] = {
    [QUERN_UNIQUE_UNTIL_DONE] = "done",       [QUERN_UNIQUE_UNTIL_STARTED] = "started",
    [QUERN_UNIQUE_UNTIL_REMOVED] = "removed", [QUERN_UNIQUE_UNTIL_ENDED] = "ended",
    [QUERN_UNIQUE_UNTIL_EXPIRED] = "expired",
};
static const char *const on_duplicates[] = {
    [QUERN_ON_DUPLICATE_FAIL] = "fail",
    [QUERN_ON_DUPLICATE_IGNORE] = "ignore",
    [QUERN_ON_DUPLICATE_REPLACE] = "replace",
    [QUERN_ON_DUPLICATE_DEBOUNCE] = "debounce",
};

#define COUNT(words) (sizeof(words) / sizeof *(words))

static bool find(const char *const *words, size_t count, const char *word, int32_t *ret_index)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            *ret_index = (int32_t)i;
            return true;
        }
    }
    return false;
}

bool qn_policy_until(const char *word, int32_t *ret_until)
{
    return find(untils, COUNT(untils), word, ret_until);
}

bool qn_policy_on_duplicate(const char *word, int32_t *ret_policy)
{
    return find(on_duplicates, COUNT(on_duplicates), word, ret_policy);
}

static const char *word_at(const char *const *words, size_t count, int32_t index)
{
    return index >= 0 && (size_t)index < count ? words[index] : "unknown";
}

const char *qn_policy_until_word(int32_t until)
{
    return word_at(untils, COUNT(untils), until);
}

const char *qn_policy_on_duplicate_word(int32_t policy)
{
    return word_at(on_duplicates, COUNT(on_duplicates), policy);
}
