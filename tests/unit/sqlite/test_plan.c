/* SPDX-License-Identifier: MIT */
/* test_plan.c - statements that run each second, or with the file locked, read no more than they
 * must.
 *
 * Without statistics SQLite likes to walk through all tasks of a queue by the index of ids, or
 * through all kept rows; in a queue of a million that stops every worker. */
#include "lib_sqlite.h"

#include <string.h>

#include "broker/sqlite/group/group_sql.h"
#include "broker/sqlite/inspect/inspect_sql.h"
#include "broker/sqlite/inspect/search_sql.h"
#include "broker/sqlite/operate/operate_sql.h"
#include "broker/sqlite/operate/trash_act_sql.h"
#include "broker/sqlite/queue/brake_sql.h"
#include "broker/sqlite/queue/meter_sql.h"
#include "broker/sqlite/queue/solo_sql.h"
#include "broker/sqlite/queue/trash_rows_sql.h"
#include "broker/sqlite/run/lease_sql.h"
#include "broker/sqlite/run/limits/lanes_sql.h"
#include "broker/sqlite/run/limits/sort_sql.h"
#include "broker/sqlite/schedule/schedule_sql.h"
#include "broker/sqlite/schema/late_sql.h"
#include "broker/sqlite/store/tables_sql.h"
#include "broker/sqlite/upkeep/drained_sql.h"
#include "broker/sqlite/upkeep/forward_sql.h"
#include "broker/sqlite/upkeep/heartbeat_sql.h"
#include "broker/sqlite/upkeep/prune_sql.h"
#include "broker/sqlite/upkeep/recover_sql.h"
#include "broker/sqlite/upkeep/redate_sql.h"
#include "broker/sqlite/upkeep/worker_death_sql.h"
#include "broker/sqlite/wake/wait_sql.h"

static const struct plan_case {
    const char *name;
    const char *sql;
    bool sorts; /* little enough */
} cases[] = {
    {"queue_busy", sql_queue_busy, false},
    {"worker_void_leases", sql_worker_void_leases, false},
    {"next_due", sql_next_due, false},
    {"forward_find", sql_forward_find, false},
    {"lease_pending", sql_lease_pending, false},
    {"lease_pending_terms", sql_lease_pending_terms, false},
    {"lease_charged", sql_lease_charged, false},
    {"lane_next", sql_lane_next, false},
    {"lane_more", sql_lane_more, false},
    {"sort_active", sql_sort_active, false},
    {"sort_pending", sql_sort_pending, false},
    {"sort_pending_to", sql_sort_pending_to, false},
    {"sort_rest", sql_sort_rest, false},
    {"sort_rest_to", sql_sort_rest_to, false},
    {"meter_running_queue", sql_meter_running_queue, false},
    {"meter_running_type", sql_meter_running_type, false},
    {"meter_running_key", sql_meter_running_key, false},
    {"meter_limits_few", sql_meter_limits_few, false},
    {"meter_semaphores", sql_meter_semaphores, false},
    {"meter_running_semaphore", sql_meter_running_semaphore, false},
    {"prune_peek_rest", sql_prune_peek_rest, false},
    {"prune_limit_uses", sql_prune_limit_uses, false},
    {"operate_seq", sql_operate_seq, false},
    {"queue_trash_count", sql_queue_trash_count, false},
    {"queue_trash_task_delete", sql_queue_trash_task_delete, false},
    {"queue_trash_delete", sql_queue_trash_delete, false},
    {"trash_add", sql_trash_add, false},
    {"trash_hide", sql_trash_hide, false},
    {"trash_find", sql_trash_find, false},
    {"trash_remove", sql_trash_remove, false},
    {"trash_count", sql_trash_count, false},
    {"trash_over", sql_trash_over, false},
    {"trash_page", sql_trash_page, false},
    {"trash_page_oldest", sql_trash_page_oldest, false},
    {"trash_restore", sql_trash_restore, false},
    {"trash_locked", sql_trash_locked, false},
    {"trash_lock", sql_trash_lock, false},
    {"lease_row", sql_lease_row, false},
    {"lease_solo", sql_lease_solo, true},
    {"solo_level", sql_solo_level, false},
    {"probe_find", sql_probe_find, false},
    {"probe_newest", sql_probe_newest, false},
    {"probe_oldest", sql_probe_oldest, false},
    {"probe_charged", sql_probe_charged, true},
    {"death_note", sql_death_note, false},
    {"death_next_queue", sql_death_next_queue, false},
    {"death_probe", sql_death_probe, false},
    {"lease_replay", sql_lease_replay, true},
    {"prune_peek_queue", sql_prune_peek_queue, false},
    {"prune_completed", sql_prune_completed, false},
    {"prune_old_archived", sql_prune_old_archived, false},
    {"prune_surplus", sql_prune_surplus, false},
    {"recover_void", sql_recover_void, false},
    {"recover_peek", sql_recover_peek, false},
    {"recover_of_worker", sql_recover_of_worker, true},
    {"recover_expired", sql_recover_expired, false},
    {"recover_remove_worker", sql_recover_remove_worker, false},
    {"redate_look", sql_redate_look, false},
    {"redate_behind", sql_redate_behind, false},
    {"redate_ahead", sql_redate_ahead, false},
    {"redate_forget", sql_redate_forget, false},
    {"queue_has_pending", sql_queue_has_pending, false},
    {"pending_since", sql_pending_since, false},
    {"entry_find", sql_entry_find, false},
    {"tick_trim", sql_tick_trim, false},
    {"tick_history", sql_tick_history, false},
    {"prune_ticks", sql_prune_ticks, false},
    {"group_any", sql_group_any, false},
    {"group_next", sql_group_next, false},
    {"group_size", sql_group_size, false},
    {"group_oldest", sql_group_oldest, false},
    {"group_newest", sql_group_newest, false},
    {"group_members", sql_group_members, false},
    {"set_give_back", sql_set_give_back, false},
    {"set_delete_members", sql_set_delete_members, false},
};

static bool is_narrow(const char *step, bool sorts)
{
    bool all_of_queue = strstr(step, "quern_task_id (queue=?)") != NULL;
    static const char *const scans[] = {"SCAN quern_task", "SCAN t", "SCAN quern_tick",
                                        "SCAN quern_trash", "SCAN r"};
    bool all_tasks = false;
    for (size_t i = 0; i < TEST_COUNT(scans); i++) {
        all_tasks = all_tasks || strcmp(step, scans[i]) == 0;
    }
    bool all_kept = strstr(step, "quern_task_rest (queue=? AND state>?)") != NULL;
    bool sort = !sorts && strncmp(step, "USE TEMP B-TREE", 15) == 0;
    return !all_of_queue && !all_tasks && !all_kept && !sort;
}

static void check_plan(sqlite3 *db, const struct plan_case *one)
{
    char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", one->sql);
    sqlite3_stmt *statement = NULL;
    assert_non_null(sql);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    sqlite3_free(sql);
    int code = sqlite3_step(statement);
    assert_int_equal(code, SQLITE_ROW);
    for (; code == SQLITE_ROW; code = sqlite3_step(statement)) {
        const char *step = (const char *)sqlite3_column_text(statement, 3);
        assert_non_null(step);
        if (!is_narrow(step, one->sorts)) {
            fail_msg("%s: %s", one->name, step);
        }
    }
    assert_int_equal(code, SQLITE_DONE);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
}

/* Each step of a search reads the rows of its page, and no others. */
static void check_searches(sqlite3 *db)
{
    static const struct {
        const char *name;
        const char *columns;
        const char *rows;
        bool sorts;
    } searches[] = {
        {"search_active", sql_search_columns_active, sql_search_active, true},
        {"search_pending", sql_search_columns_place, sql_search_pending, false},
        {"search_charged", sql_search_columns_charged, sql_search_charged, false},
        {"search_due", sql_search_columns_due, sql_search_due, false},
        {"search_oldest", sql_search_columns_rest, sql_search_oldest, false},
        {"search_newest", sql_search_columns_rest, sql_search_newest, false},
    };
    for (size_t i = 0; i < TEST_COUNT(searches); i++) {
        char *sql =
            sqlite3_mprintf("%s\ntype GLOB 'a*'\n%s", searches[i].columns, searches[i].rows);
        assert_non_null(sql);
        check_plan(db, &(struct plan_case){searches[i].name, sql, searches[i].sorts});
        sqlite3_free(sql);
    }
}

static void no_frequent_statement_walks_through_a_whole_queue(void **state)
{
    (void)state;
    struct lib_sqlite place;
    sqlite3 *db = NULL;
    lib_sqlite_make(&place);
    qn_broker_close(lib_sqlite_open(place.path));
    lib_sqlite_exec(place.path, sql_late_lane);
    lib_sqlite_exec(place.path, sql_late_group);
    lib_sqlite_exec(place.path, sql_late_set);
    assert_int_equal(sqlite3_open(place.path, &db), SQLITE_OK);
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        check_plan(db, &cases[i]);
    }
    check_searches(db);
    char *page = sqlite3_mprintf("%s%s%s%s", sql_page_select, sql_page_state_2_suspect,
                                 sql_page_filter, sql_page_order_place);
    assert_non_null(page);
    check_plan(db, &(struct plan_case){"a page of charged tasks", page, .sorts = true});
    sqlite3_free(page);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    lib_sqlite_remove(&place);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_frequent_statement_walks_through_a_whole_queue),
};
TEST_MAIN(tests)
