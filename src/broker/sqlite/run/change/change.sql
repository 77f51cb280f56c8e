-- change.sql - what a run changes in its task (?1: its seq).

-- ?7: a planted fault.
-- name: change_data
UPDATE quern_task SET payload = iif(?2, ?3, payload), retry_max = iif(?4, ?5, retry_max)
WHERE seq = ?1 AND (token = ?6 AND state = 1 OR ?7);

-- Whether queue ?1 has a task with the id ?2, or another one there holds the lock ?3 (NULL: none).
-- name: change_refused
SELECT EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND id = ?2)
    OR EXISTS (SELECT 1 FROM quern_lock WHERE key = ?3 AND until_ms > ?4);

-- name: change_queue
UPDATE quern_task SET queue = ?2, lane = ?3, unique_key = ?4 WHERE seq = ?1;

-- Given back to another queue, where it has no place (?2: now, ?3: the shift of the clocks): it is
-- due at once.
-- name: change_due
UPDATE quern_task SET state = 4, token = 0, at_ms = ?2,
    due_boot_ms = iif(?3 = 0, 0, max(?2 - ?3, 1)) WHERE seq = ?1;

-- One of that name whose time is over is replaced. A lock that holds whatever becomes of its task
-- stays behind.
-- name: change_lock
UPDATE OR REPLACE quern_lock SET key = ?1, queue = ?2
WHERE key = ?3 AND queue = ?4 AND id = ?5 AND fixed = 0;
