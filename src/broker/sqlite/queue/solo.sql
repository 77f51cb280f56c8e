-- solo.sql - the solo locks of queues (schema.sql), which let a worker run a task alone.
--
-- Moments are clamped before anything is added: beyond its numbers SQLite counts in floating point,
-- which the columns refuse, and then nothing of a dead worker could be recovered.

-- name: solo_take
UPDATE quern_queue SET solo_owner = ?2, solo_since_ms = ?3, solo_until_ms = ?4, solo_rest_ms = 0
WHERE no = ?1;

-- The lock was last taken or kept at solo_until_ms - ?3. Where the clock went back since, or on by
-- more than ?3, it was set, and solo_since_ms goes with it: else the queue would rest that long.
-- name: solo_keep
UPDATE quern_queue SET solo_until_ms = ?2 + ?3,
    solo_since_ms = min(max(solo_since_ms, 0), 1 << 61) +
    iif(?2 - (solo_until_ms - ?3) BETWEEN 0 AND ?3, 0,
        ?2 - (min(max(solo_until_ms, 0), 1 << 61) - ?3))
WHERE no = ?1;

-- Returns all locks of this worker. Each of the queues then rests for as long as its lock was held,
-- and for ?3 more. A time in which the clock was set (see solo_keep) is not counted; when the
-- clock goes back later, the rest counts as over.
-- name: solo_return
UPDATE quern_queue SET solo_owner = '', solo_since_ms = ?2, solo_until_ms = 0,
    solo_rest_ms = ?2 + ?3 +
        max(min(solo_until_ms, 1 << 61) - ?4 - max(solo_since_ms, 0), 0) +
        iif(?2 - (solo_until_ms - ?4) BETWEEN 0 AND ?4, ?2 - (solo_until_ms - ?4), 0)
WHERE solo_owner = ?1;

-- name: solo_rest
SELECT solo_rest_ms FROM quern_queue WHERE no = ?1;

-- The highest level of its charged pending tasks, 4 at most.
-- name: solo_level
SELECT level FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0
ORDER BY level DESC LIMIT 1;

-- name: solo_lowest
SELECT coalesce(level, -1) FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0
ORDER BY level LIMIT 1;

-- Of levels that only damage makes: no lease looks for these.
-- name: solo_repair
UPDATE quern_task SET level = min(crash_count, 4)
WHERE queue = ?1 AND state = 2 AND crash_count > 0
    AND (level IS NULL OR level NOT BETWEEN 0 AND 4);
