-- lease.sql - taking runs. The reading statements have the same columns. lease_pending, which every
-- task passes, leaves out the last ones: a new run gets its own token and start, and the last four
-- lie behind the payload.

-- Of those that are not charged, in a queue without terms.
-- name: lease_pending
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, cause,
    iif(due_at_ms > 0, due_at_ms, enqueued_at_ms)
FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0 AND place > ?2
ORDER BY place LIMIT ?3;

-- In a queue with terms.
-- name: lease_pending_terms
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, cause,
    iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started, crash_count, life_ms,
    start_by_at_ms, nullif(substr(lane, 1, instr(lane, char(31)) - 1), ''), unique_terms,
    level, run_limits
FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0 AND place > ?2
ORDER BY place LIMIT ?3;

-- name: lease_row
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, cause,
    iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started, crash_count, life_ms,
    start_by_at_ms, nullif(substr(lane, 1, instr(lane, char(31)) - 1), ''), unique_terms,
    level, run_limits
FROM quern_task WHERE seq = ?1 AND state = 2;

-- The plus sign: see recover.sql.
-- name: lease_replay
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, cause,
    iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), token, started, crash_count, life_ms,
    start_by_at_ms, nullif(substr(lane, 1, instr(lane, char(31)) - 1), ''), unique_terms,
    level, run_limits
FROM quern_task WHERE +queue = ?1 AND state = 1 AND token BETWEEN ?2 AND ?3
ORDER BY token LIMIT ?3 - ?2 + 1;

-- Of the charged ones, those of the level ?2 (4: or above), to read by lease_row.
-- name: lease_charged
SELECT seq, place FROM quern_task
WHERE queue = ?1 AND state = 2 AND crash_count > 0 AND level = ?2 AND place > ?3
ORDER BY place LIMIT ?4;

-- The first of those that must run alone: of the level ?2 (4 at most) or above.
-- name: lease_solo
SELECT seq FROM quern_task
WHERE queue = ?1 AND state = 2 AND crash_count > 0 AND level >= ?2
ORDER BY place LIMIT 1;

-- ?3 and the next are the same for most runs of a lease (write_lease).
-- Names no column that a CHECK ties to another one, if it can: each costs every task.
-- name: lease_write
UPDATE quern_task SET state = 1, token = ?2, lease_until = ?3, worker = ?4, started = ?5,
    started_at_ms = ?6
WHERE seq = ?1;

-- Values that only damage makes, and that a CHECK would refuse, must not block the tasks of a
-- queue.
-- name: lease_repair
UPDATE quern_task SET cancel = 0, retry_max = max(retry_max, 0),
    retry_count = min(retry_count, max(retry_max, 0))
WHERE seq = ?1;

-- name: lease_too_late
UPDATE quern_task SET state = 5, at_ms = ?2, failed_at_ms = ?2, error = ?3
WHERE seq = ?1;

-- name: worker_no
SELECT no FROM quern_worker WHERE id = ?1;
