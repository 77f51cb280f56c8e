-- enqueue.sql - storing tasks.

-- Like queue_find of tables.sql.
-- name: queue_limit
SELECT no, max_pending, lanes, terms FROM quern_queue WHERE name = ?1;

-- How many wait for a run, of each kind ?2 at most: pending, uncharged or charged, and scheduled.
-- name: queue_waiting
SELECT (SELECT count(*) FROM (SELECT 1 FROM quern_task
            WHERE queue = ?1 AND state = 2 AND crash_count = 0 LIMIT ?2))
    + (SELECT count(*) FROM (SELECT 1 FROM quern_task
            WHERE queue = ?1 AND state = 2 AND crash_count > 0
                AND level BETWEEN 0 AND 4 LIMIT ?2))
    + (SELECT count(*) FROM (SELECT 1 FROM quern_task
            WHERE queue = ?1 AND state IN (3, 4) AND state = 3 LIMIT ?2));

-- name: task_known
SELECT 1 FROM quern_task WHERE queue = ?1 AND id = ?2;

-- From now on leases look at the terms of the queue's tasks.
-- name: terms_begin
UPDATE quern_queue SET terms = 1 WHERE no = ?1;

-- name: savepoint
SAVEPOINT quern_enqueue;

-- name: savepoint_release
RELEASE quern_enqueue;

-- name: savepoint_rollback
ROLLBACK TO quern_enqueue;

-- name: meta_version
SELECT schema_version FROM quern_meta WHERE one = 1;

-- The task that holds the lock of a new one; 1: it waits, so that it may be changed.
-- name: holder_find
SELECT l.id, l.fixed, t.seq, t.state IN (2, 3, 4) OR t.state = 7 AND t.worker = 0, t.state
FROM quern_lock AS l LEFT JOIN quern_task AS t
    ON t.queue = l.queue AND t.id = l.id AND t.unique_key = l.key
WHERE l.key = ?1 AND l.until_ms > ?2;

-- name: holder_replace
UPDATE quern_task SET type = ?2, payload = ?3, headers = ?4,
    lane = iif((SELECT lanes FROM quern_queue WHERE no = quern_task.queue) = 2,
        substr(lane, 1, instr(lane, char(31))) || ?2, lane)
WHERE seq = ?1;

-- A pending one is due already, and one of a group has no moment. The moment by which it must have
-- started moves along, as in redate.sql.
-- name: holder_debounce
UPDATE quern_task SET at_ms = ?2, due_boot_ms = ?3,
    start_by_at_ms = iif(start_by_at_ms BETWEEN 1 AND 1 << 60 AND at_ms BETWEEN 0 AND 1 << 60,
        max(start_by_at_ms + (?2 - at_ms), 1), start_by_at_ms)
WHERE seq = ?1 AND state IN (3, 4);

-- name: holder_renew
UPDATE quern_lock SET until_ms = max(until_ms, ?2) WHERE key = ?1 AND fixed = 0;

-- Takes over a lock whose time is over, or whose task is not to keep it.
-- name: lock_take
INSERT INTO quern_lock (key, queue, id, until_ms, fixed) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, id = excluded.id,
    until_ms = excluded.until_ms, fixed = excluded.fixed;
