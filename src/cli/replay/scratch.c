/* SPDX-License-Identifier: MIT */
/* scratch.c - makes a broker for one task, and removes it.
 *
 * The task is stored by a client, as any other one. A client cannot store that it was retried
 * before, and on a real broker no program should: so that one row is changed here, in a file that
 * no other process knows yet. */
#include "cli/replay/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "task/limits.h"

#define KEPT_MS (24 * 3600 * INT64_C(1000)) /* so that a task that is done can be shown */
enum { DESCRIPTORS = 8 };

/* What depends on the moment, or on other tasks, is left out. */
static quern_task task_of(const struct qn_cli *cli, const struct qn_task_file *file, bool is_timed)
{
    quern_task task = file->line.task;
    bool is_over =
        task.deadline_at_ms != 0 && task.deadline_at_ms <= qn_clock_wall_ms(qn_clock_system());
    if (is_over && is_timed) {
        qn_cli_message(cli, "its deadline is over, and is left out");
    }
    if (is_over || !is_timed) {
        task.deadline_at_ms = 0;
    }
    task.timeout_ms = is_timed ? task.timeout_ms : QUERN_TIMEOUT_NEVER;
    task.delay_ms = 0;
    task.process_at_ms = 0;
    task.start_within_ms = 0;
    task.group = NULL;
    task.unique_ms = 0;
    task.unique_key = NULL;
    task.unique_until = 0;
    task.on_duplicate = 0;
    task.retention_ms = task.retention_ms > KEPT_MS ? task.retention_ms : KEPT_MS;
    return task;
}

static int store_task(const struct qn_cli *cli, const quern_task *task, struct qn_scratch *scratch)
{
    quern_error err;
    quern_client *client = NULL;
    const quern_client_options options = {.payload_size_max = QN_PAYLOAD_SIZE_LIMIT};
    quern_status status = quern_client_open(scratch->url, &options, &client, &err);
    if (status == QUERN_OK) {
        status = quern_client_enqueue(client, task, &scratch->info, &err);
    }
    quern_client_free(client);
    if (status == QUERN_E_INVALID) { /* the file is wrong, not the line */
        qn_cli_report_error(cli, &err);
        return QN_EXIT_DATA;
    }
    return status == QUERN_OK ? QN_EXIT_OK : qn_cli_fail(cli, &err);
}

/* -1 is no retry at all. */
static bool set_retries(const struct qn_scratch *scratch, const struct qn_task_file *file)
{
    static const char text[] = "UPDATE quern_task SET retry_count = min(retry_max, ?1), cause = ?2";
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_open_v2(scratch->url, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
                sqlite3_prepare_v2(db, text, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_bind_int64(statement, 1, file->retry_count) == SQLITE_OK &&
                sqlite3_bind_int64(statement, 2, file->cause) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_DONE;
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return done;
}

int qn_scratch_make(const struct qn_cli *cli, const struct qn_task_file *file, bool is_timed,
                    struct qn_scratch *scratch)
{
    const char *place = getenv("TMPDIR");
    place = place != NULL && place[0] == '/' ? place : "/tmp";
    int size = snprintf(scratch->folder, sizeof scratch->folder, "%s/quern-replay-XXXXXX", place);
    if (size < 0 || (size_t)size >= sizeof scratch->folder || mkdtemp(scratch->folder) == NULL) {
        qn_cli_message(cli, "no folder for the replay in %.128s: %s", place, strerror(errno));
        scratch->folder[0] = '\0';
        return QN_EXIT_FAILURE;
    }
    (void)snprintf(scratch->url, sizeof scratch->url, "%s/replay.db", scratch->folder);
    quern_task task = task_of(cli, file, is_timed);
    int exit_code = store_task(cli, &task, scratch);
    if (exit_code == QN_EXIT_OK && !set_retries(scratch, file)) {
        qn_cli_message(cli, "%s: cannot be written", scratch->url);
        exit_code = QN_EXIT_FAILURE;
    }
    return exit_code;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status;
    (void)kind;
    (void)walk;
    (void)remove(path); /* what stays is found by its name */
    return 0;
}

void qn_scratch_remove(struct qn_scratch *scratch)
{
    if (scratch->folder[0] != '\0') {
        (void)nftw(scratch->folder, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
    }
    quern_task_info_free(scratch->info);
    *scratch = (struct qn_scratch){0};
}
