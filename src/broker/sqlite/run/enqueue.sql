-- enqueue.sql - storing tasks.

-- name: lock_held
SELECT 1 FROM quern_lock WHERE key = ?1 AND until_ms > ?2;

-- Like queue_find of tables.sql.
-- name: queue_limit
SELECT no, max_pending, lanes FROM quern_queue WHERE name = ?1;

-- How many wait for a run, of each kind ?2 at most: pending, uncharged or charged, and scheduled.
-- name: queue_waiting
SELECT (SELECT count(*) FROM (SELECT 1 FROM quern_task
            WHERE queue = ?1 AND state = 2 AND crash_count = 0 LIMIT ?2))
    + (SELECT count(*) FROM (SELECT 1 FROM quern_task
            WHERE queue = ?1 AND state = 2 AND crash_count > 0
                AND min(crash_count, 4) BETWEEN 1 AND 4 LIMIT ?2))
    + (SELECT count(*) FROM (SELECT 1 FROM quern_task
            WHERE queue = ?1 AND state IN (3, 4) AND state = 3 LIMIT ?2));

-- name: task_known
SELECT 1 FROM quern_task WHERE queue = ?1 AND id = ?2;

-- Takes over a lock whose time is over.
-- name: lock_take
INSERT INTO quern_lock (key, queue, id, until_ms) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, id = excluded.id,
    until_ms = excluded.until_ms;

-- No change: there is a task with this id in the queue. seq is a number of the counter, so that it
-- never names another task later.
-- name: task_insert
INSERT INTO quern_task (seq, place, queue, id, state, at_ms, retry_max, timeout_ms, deadline_at_ms,
    retention_ms, enqueued_at_ms, retry_kind, retry_base_ms, retry_cap_ms, type, unique_key, grp,
    headers, payload, due_boot_ms, start_by_at_ms, priority,
    limit_key, lane)
VALUES (?1, ?21, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
    ?20, ?22, ?23, ?24)
ON CONFLICT (queue, id) DO NOTHING;

-- name: savepoint
SAVEPOINT quern_enqueue;

-- name: savepoint_release
RELEASE quern_enqueue;

-- name: savepoint_rollback
ROLLBACK TO quern_enqueue;

-- name: meta_version
SELECT schema_version FROM quern_meta WHERE one = 1;
