/* SPDX-License-Identifier: MIT */
/* policy.h - the words for the policies of unique tasks: on the command line, in an import, in
 * schedule.conf. */
#ifndef QN_TASK_POLICY_H
#define QN_TASK_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define QN_POLICY_UNTIL "done, started, removed, ended or expired"
#define QN_POLICY_ON_DUPLICATE "fail, ignore, replace or debounce"

/* False: it is none of the words above. */
bool qn_policy_until(const char *word, int32_t *ret_until);
bool qn_policy_on_duplicate(const char *word, int32_t *ret_policy);
/* The words; "unknown" for those of a newer library. */
const char *qn_policy_until_word(int32_t until);
const char *qn_policy_on_duplicate_word(int32_t policy);

#endif
