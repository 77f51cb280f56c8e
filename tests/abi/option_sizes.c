/* SPDX-License-Identifier: MIT */
/* option_sizes.c - the sizes of the public structs, release by release.
 *
 * Programs pass the size of their structs to the library, so a struct may grow at its end, by whole
 * fields that make sizeof larger, and in no other way. A line here is changed only together with a
 * new field; it stays as the record of what the release had. Compiled, never run. */
#include "quern/quern.h"
#include "quern/sqlite.h"
#include "quern/testing.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has changed its size")

#ifdef __LP64__ /* other sizes of pointers are not recorded */
SIZE(quern_client_options, 120);
SIZE(quern_day, 32);
SIZE(quern_enqueue_result, 264);
SIZE(quern_entry, 48);
SIZE(quern_entry_event, 32);
SIZE(quern_entry_info, 128);
SIZE(quern_error, 256);
SIZE(quern_exec_options, 32);
SIZE(quern_failure, 32);
SIZE(quern_finding, 40);
SIZE(quern_group_options, 32);
SIZE(quern_handler_options, 120);
SIZE(quern_header, 16);
SIZE(quern_inspector_options, 32);
SIZE(quern_limit, 56);
SIZE(quern_link_failure, 32);
SIZE(quern_metrics_options, 8);
SIZE(quern_queue, 16);
SIZE(quern_queue_info, 240);
SIZE(quern_queue_settings, 8);
SIZE(quern_retry_policy, 24);
SIZE(quern_run_report, 56);
SIZE(quern_scheduler_options, 96);
SIZE(quern_task, 224);
SIZE(quern_task_filter, 64);
SIZE(quern_search, 72);
SIZE(quern_task_edit, 136);
SIZE(quern_test_run_options, 40);
SIZE(quern_tick, 40);
SIZE(quern_trace_document, 32);
SIZE(quern_tracer_options, 88);
SIZE(quern_tracer_stats, 24);
SIZE(quern_worker_check, 96);
SIZE(quern_worker_command, 32);
SIZE(quern_worker_health, 1176);
SIZE(quern_worker_info, 96);
SIZE(quern_worker_options, 256);
SIZE(quern_worker_run_info, 40);
SIZE(quern_worker_stats, 104);
SIZE(quern_zygote_options, 24);

/* Enums are int: a larger constant must not widen them. */
SIZE(quern_status, 4);
SIZE(quern_outcome, 4);
SIZE(quern_task_state, 4);
SIZE(quern_cause, 4);
SIZE(quern_action, 4);
SIZE(quern_ack, 4);
SIZE(quern_on_crash, 4);
SIZE(quern_log_level, 4);
SIZE(quern_severity, 4);
SIZE(quern_worker_order, 4);
SIZE(quern_worker_status, 4);
SIZE(quern_unique_until, 4);
SIZE(quern_on_duplicate, 4);
SIZE(quern_limit_scope, 4);
SIZE(quern_entry_event_kind, 4);
SIZE(quern_entry_put, 4);
SIZE(quern_entry_pause, 4);
SIZE(quern_pool, 4);
#endif
