-- wait.sql - is there work, and has anything changed?

-- name: data_version
PRAGMA data_version;

-- name: queue_state
SELECT no, paused_at_ms FROM quern_queue WHERE name = ?1;

-- name: queue_has_pending
SELECT EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0)
    OR EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0);
