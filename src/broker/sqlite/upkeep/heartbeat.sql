-- heartbeat.sql - the worker's record.

-- The writer of this is alive, even if its death was noted.
-- name: worker_update
UPDATE quern_worker SET status = ?2, queues = ?3, concurrency = ?4, strict = ?5,
    heartbeat_at_ms = ?6, died_with = -1
WHERE id = ?1;

-- name: worker_insert
INSERT INTO quern_worker (no, id, owner, host, pid, status, queues, concurrency, strict,
    started_at_ms, heartbeat_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);

-- Its remaining leases are free for recovery at once: it reports its own end.
-- name: worker_void_leases
UPDATE quern_task SET lease_until = 1
WHERE state = 1 AND worker = (SELECT no FROM quern_worker WHERE id = ?1);

-- name: worker_delete
DELETE FROM quern_worker WHERE id = ?1;
