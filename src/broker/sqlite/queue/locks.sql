-- locks.sql - the life of the lock of a unique task, beside that of the task (?1: its seq).

-- Until ?3 ms after ?2, or its own time if that is longer; a lock that has ended is taken again
-- (?4: now), unless another task has it.
-- name: lock_hold
INSERT INTO quern_lock (key, queue, id, until_ms, fixed)
SELECT unique_key, queue, id, ?2 + max(min(unique_terms >> 3, 1 << 53), ?3), 0 FROM quern_task
WHERE seq = ?1 AND unique_key IS NOT NULL AND unique_terms >> 3 > 0
    AND unique_terms & 7 IN (0, 2, 3)
ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, id = excluded.id,
    until_ms = max(until_ms, excluded.until_ms), fixed = 0
WHERE fixed = 0 AND queue = excluded.queue AND id = excluded.id OR until_ms <= ?4;

-- Not longer than its own time from now on (?2).
-- name: lock_shorten
UPDATE quern_lock SET until_ms = min(until_ms, ?2 +
    (SELECT min(unique_terms >> 3, 1 << 53) FROM quern_task WHERE seq = ?1))
WHERE key = (SELECT unique_key FROM quern_task WHERE seq = ?1 AND unique_terms >> 3 > 0)
    AND fixed = 0 AND (queue, id) = (SELECT queue, id FROM quern_task WHERE seq = ?1);

-- name: lock_end
DELETE FROM quern_lock
WHERE key = (SELECT unique_key FROM quern_task WHERE seq = ?1) AND fixed = 0
    AND (queue, id) = (SELECT queue, id FROM quern_task WHERE seq = ?1);
