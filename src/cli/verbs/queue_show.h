/* SPDX-License-Identifier: MIT */
/* queue_show.h - queues as tables, pages and JSON; used by `quern queue` and `quern stats`. */
#ifndef QN_CLI_VERBS_QUEUE_SHOW_H
#define QN_CLI_VERBS_QUEUE_SHOW_H

#include <jansson.h>

#include "quern/inspector.h"

/* workers: NULL where they could not be read. */
/* lines_max: of all; where there are more queues, the largest. 0: as many as there are. */
void qn_queue_show_list_print(const quern_queue_list *list, const quern_worker_list *workers,
                              size_t lines_max);
void qn_queue_show_counts_print(uint64_t size, const uint64_t counts[QUERN_TASK_STATE_COUNT]);
void qn_queue_show_print(const quern_queue_info *queue, const quern_worker_list *workers);
void qn_queue_show_history_print(const quern_day *days, size_t count);
/* New values. */
json_t *qn_queue_show_json(const quern_queue_info *queue, const quern_worker_list *workers);
json_t *qn_queue_show_list_json(const quern_queue_list *list, const quern_worker_list *workers);
json_t *qn_queue_show_history_json(const quern_day *days, size_t count);
/* An object with a number for each state. */
json_t *qn_queue_show_counts_json(const uint64_t counts[QUERN_TASK_STATE_COUNT]);

#endif
