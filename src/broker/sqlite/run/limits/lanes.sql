-- lanes.sql - the pending tasks of a queue by lane. Each finds its row in one step of the index,
-- however many tasks stand before it.

-- The first task of the lane behind this one.
-- name: lane_next
SELECT lane, seq, place FROM quern_task
WHERE queue = ?1 AND state = 2 AND min(crash_count, 1) = 0 AND lane > ?2
ORDER BY lane, place LIMIT 1;

-- The next task of the same lane.
-- name: lane_more
SELECT seq, place FROM quern_task
WHERE queue = ?1 AND state = 2 AND min(crash_count, 1) = 0 AND lane = ?2 AND place > ?3
ORDER BY place LIMIT 1;

-- name: lane_turn
SELECT lane_key FROM quern_queue WHERE no = ?1;

-- name: lane_turn_write
UPDATE quern_queue SET lane_key = ?2 WHERE no = ?1;
