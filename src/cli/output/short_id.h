/* SPDX-License-Identifier: MIT */
/* short_id.h - ids as short as they can be and still be told apart, for people.
 *
 * Only UUIDs are shortened: an id that a program chose has a meaning, and its beginning may be the
 * id of another task. Every command that takes an id takes a short one. */
#ifndef QN_CLI_OUTPUT_SHORT_ID_H
#define QN_CLI_OUTPUT_SHORT_ID_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/output/table.h"

#define QN_SHORT_ID_TIMED_SIZE 18 /* of ids of ours: the time and the counter */

/* How many characters of the UUIDs among these ids distinguish them. is_all: there are no other
 * tasks; else there are enough characters that no other task begins alike. Sorts `ids`. */
size_t qn_short_id_size(const char **ids, size_t count, bool is_all);
/* Whether so many characters of this UUID are enough to change its task: fewer may soon be those of
 * another one. */
bool qn_short_id_is_enough(const char *id, size_t size);
/* Adds the next cell: so much of a UUID, or all of another id. */
void qn_short_id_cell(struct qn_table *table, const char *id, size_t size);

#endif
