-- operate.sql - operations by hand on tasks and queues.

-- Where a task with this id is; ?2 NULL: in any queue.
-- name: operate_find
SELECT t.seq, q.name FROM quern_queue AS q
    CROSS JOIN quern_task AS t INDEXED BY quern_task_id ON t.queue = q.no AND t.id = ?1
WHERE ?2 IS NULL OR q.name = ?2 ORDER BY q.name;

-- name: operate_seq
SELECT seq FROM quern_task INDEXED BY quern_task_id WHERE queue = ?1 AND id = ?2;

-- name: operate_read
SELECT queue, id, state, unique_key, state = 7 AND worker <> 0, unique_terms & 7, cancel
FROM quern_task WHERE seq = ?1;

-- To the tail of pending, as a task that nothing has happened to yet, and that may start whenever.
-- The token stays, but with this cause no late outcome of an earlier run can take the task.
-- Its place: see forward.sql.
-- name: operate_run
UPDATE quern_task SET state = 2, at_ms = 0,
    place = ?2 + iif(?2 <= 1 << 62 AND place >> 48 BETWEEN -100 AND 100, place >> 48, 0) * ?4,
    due_at_ms = ?3, due_boot_ms = 0, cause = 7,
    start_by_at_ms = NULL, crash_count = 0, lone = 0, level = NULL, life_ms = 0, crashed_at_ms = 0,
    died_at_ms = 0, completed_at_ms = 0, progress = -1, progress_note = NULL
WHERE seq = ?1;

-- name: operate_archive
UPDATE quern_task SET state = 5, at_ms = ?2 WHERE seq = ?1;

-- name: operate_delete
DELETE FROM quern_task WHERE seq = ?1;

-- name: operate_cancel
UPDATE quern_task SET cancel = max(cancel, ?2) WHERE seq = ?1;

-- name: archive_count
SELECT count(*) FROM quern_task WHERE queue = ?1 AND state >= 5 AND state BETWEEN 5 AND 5;

-- name: queue_read
SELECT no, paused_at_ms FROM quern_queue WHERE name = ?1;

-- name: queue_pause
UPDATE quern_queue SET paused_at_ms = ?2 WHERE no = ?1;

-- name: queue_set_max_pending
UPDATE quern_queue SET max_pending = ?2 WHERE no = ?1;

-- name: queue_active_count
SELECT count(*) FROM quern_task INDEXED BY quern_task_lease WHERE queue = ?1 AND state = 1;

-- name: queue_task_count
SELECT count(*) FROM (SELECT 1 FROM quern_task WHERE queue = ?1 LIMIT ?2);

-- name: queue_task_delete
DELETE FROM quern_task WHERE seq IN (SELECT seq FROM quern_task WHERE queue = ?1 LIMIT ?2);

-- name: queue_trash_count
SELECT count(*) FROM (SELECT 1 FROM quern_trash WHERE queue = ?1 LIMIT ?2);

-- name: queue_trash_task_delete
DELETE FROM quern_task WHERE queue < 0 AND seq IN (
    SELECT seq FROM quern_trash WHERE queue = ?1 ORDER BY until_ms, seq LIMIT ?2);

-- name: queue_trash_delete
DELETE FROM quern_trash WHERE seq IN (
    SELECT seq FROM quern_trash WHERE queue = ?1 ORDER BY until_ms, seq LIMIT ?2);

-- One that holds for its whole time does so whatever becomes of its task.
-- name: queue_lock_delete
DELETE FROM quern_lock WHERE queue = ?1 AND fixed = 0;

-- name: queue_day_delete
DELETE FROM quern_day WHERE queue = ?1;

-- name: queue_set_delete
DELETE FROM quern_set WHERE queue = ?1;

-- name: queue_host_delete
DELETE FROM quern_host WHERE queue = ?1;

-- name: queue_entry_count
SELECT count(*) FROM quern_entry WHERE queue = ?1;

-- name: queue_entry_delete
DELETE FROM quern_entry WHERE queue = ?1;

-- name: queue_tick_delete
DELETE FROM quern_tick WHERE queue = ?1;

-- Schedulers load their entries again.
-- name: queue_entry_version
UPDATE quern_leader SET version = ?1;

-- name: queue_limit_delete
DELETE FROM quern_limit WHERE queue = ?1;

-- name: queue_limit_use_delete
DELETE FROM quern_limit_use WHERE queue = ?1;

-- name: queue_delete
DELETE FROM quern_queue WHERE no = ?1;
