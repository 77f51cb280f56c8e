-- group.sql - aggregating the tasks of a group. The conditions on state and worker are those of
-- the indexes, word for word; without these indexes no task is in a group (schema/late.h).

-- name: group_any
SELECT 1 FROM quern_task WHERE queue = ?1 AND state >= 5 AND state BETWEEN 7 AND 7 LIMIT 1;

-- name: group_next
SELECT grp FROM quern_task WHERE queue = ?1 AND grp > ?2 AND state = 7 AND worker = 0
ORDER BY grp LIMIT 1;

-- How many it has, up to ?3.
-- name: group_size
SELECT count(*) FROM (
    SELECT 1 FROM quern_task WHERE queue = ?1 AND grp = ?2 AND state = 7 AND worker = 0 LIMIT ?3);

-- name: group_oldest
SELECT at_ms FROM quern_task WHERE queue = ?1 AND grp = ?2 AND state = 7 AND worker = 0
ORDER BY at_ms, place LIMIT 1;

-- name: group_newest
SELECT at_ms FROM quern_task WHERE queue = ?1 AND grp = ?2 AND state = 7 AND worker = 0
ORDER BY at_ms DESC, place DESC LIMIT 1;

-- The columns of lease.sql.
-- name: group_members
SELECT seq, place, id, type, payload, retry_max, retry_kind, retry_base_ms, retry_cap_ms,
    timeout_ms, deadline_at_ms, retention_ms, unique_key, grp, headers, retry_count, cause,
    iif(due_at_ms > 0, due_at_ms, enqueued_at_ms), 0, 0, crash_count, life_ms,
    start_by_at_ms, nullif(substr(lane, 1, instr(lane, char(31)) - 1), ''), unique_terms,
    level, run_limits
FROM quern_task WHERE queue = ?1 AND grp = ?2 AND state = 7 AND worker = 0
ORDER BY at_ms, place LIMIT ?3;

-- name: set_add
UPDATE quern_task SET worker = ?2 WHERE seq = ?1;

-- name: set_make
INSERT INTO quern_set (no, queue, grp, worker, lease_until)
VALUES (?1, ?2, ?3, coalesce((SELECT no FROM quern_worker WHERE id = ?4), 0), ?5);

-- name: set_extend
UPDATE quern_set SET lease_until = ?2 WHERE no = ?1;

-- ?2: only if its lease ends then; NULL: in any case.
-- name: set_end
DELETE FROM quern_set WHERE no = ?1 AND (?2 IS NULL OR lease_until = ?2);

-- name: set_give_back
UPDATE quern_task SET worker = 0 WHERE worker = ?1 AND state = 7 AND worker > 0;

-- name: set_delete_members
DELETE FROM quern_task WHERE worker = ?1 AND state = 7 AND worker > 0;

-- The sets of a queue, with the owners of their leases.
-- name: set_list
SELECT s.no, s.lease_until, s.worker, w.owner
FROM quern_set AS s LEFT JOIN quern_worker AS w ON w.no = s.worker
WHERE s.queue = ?1 AND (s.lease_until, s.no) > (?2, ?3) ORDER BY s.lease_until, s.no LIMIT ?4;
