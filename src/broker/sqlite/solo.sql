-- solo.sql - the solo locks of queues (schema.sql), which let a worker run a task alone.

-- name: solo_take
UPDATE quern_queue SET solo_owner = ?2, solo_since_ms = ?3, solo_until_ms = ?4, solo_rest_ms = 0
WHERE no = ?1;

-- name: solo_keep
UPDATE quern_queue SET solo_until_ms = ?2 WHERE no = ?1;

-- All that this worker has; it is held against the queue that a death costs ?3 more. A clock that
-- went back says nothing about how long that was; when it goes back later, the rest is over.
-- name: solo_return
UPDATE quern_queue SET solo_owner = '', solo_since_ms = ?2, solo_until_ms = 0,
    solo_rest_ms = ?2 + iif(solo_since_ms BETWEEN 1 AND ?2, ?2 - solo_since_ms, 0) + ?3
WHERE solo_owner = ?1;

-- How much the most charged pending task is charged, 4 at most.
-- name: solo_level
SELECT min(crash_count, 4) FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0
ORDER BY min(crash_count, 4) DESC LIMIT 1;
