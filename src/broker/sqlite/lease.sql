-- lease.sql - taking runs. The columns of the three reading statements are the same.

-- name: lease_pending
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, crash_count,
    cause, iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started
FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0 AND place > ?2
ORDER BY place LIMIT ?3;

-- name: lease_suspect
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, crash_count,
    cause, iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started
FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0 AND place > ?2
ORDER BY place LIMIT ?3;

-- The plus sign: see recover.sql.
-- name: lease_replay
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, crash_count,
    cause, iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started
FROM quern_task WHERE +queue = ?1 AND state = 1 AND token BETWEEN ?2 AND ?3
ORDER BY token LIMIT ?3 - ?2 + 1;

-- name: lease_write
UPDATE quern_task SET state = 1, token = ?2, lease_until = ?3, worker = ?4, started = ?5,
    started_at_ms = ?6
WHERE seq = ?1;

-- name: lease_too_late
UPDATE quern_task SET state = 5, at_ms = ?2, failed_at_ms = ?2, error = 'deadline exceeded'
WHERE seq = ?1;

-- name: worker_no
SELECT no FROM quern_worker WHERE id = ?1;
