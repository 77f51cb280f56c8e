-- standing.sql - where one task stands. Read transactions only.

-- name: standing_task
SELECT q.no, t.place, t.crash_count, coalesce(t.level, min(t.crash_count, 4)), t.lane, t.worker,
    q.lanes, q.solo_owner, q.solo_until_ms, q.solo_rest_ms
FROM quern_queue AS q CROSS JOIN quern_task AS t INDEXED BY quern_task_id ON t.queue = q.no
WHERE q.name = ?1 AND t.id = ?2;

-- How many pending tasks are before a place, counted so far.
-- name: standing_ahead
SELECT count(*) FROM (SELECT 1 FROM quern_task
    WHERE queue = ?1 AND state = 2 AND crash_count = 0 AND place < ?2 LIMIT ?3);

-- The same in a lane.
-- name: standing_ahead_lane
SELECT count(*) FROM (SELECT 1 FROM quern_task
    WHERE queue = ?1 AND state = 2 AND min(crash_count, 1) = 0 AND lane = ?4 AND place < ?2
    LIMIT ?3);

-- name: standing_worker
SELECT host, pid, heartbeat_at_ms FROM quern_worker WHERE no = ?1;

-- name: standing_group
SELECT count(*) FROM quern_task WHERE queue = ?1 AND state = 7 AND worker = 0 AND grp = ?2;
