-- limit.sql - limits as an operator sets them.

-- name: limit_set
INSERT INTO quern_limit (queue, scope, name, rate, count, period_ms, burst)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (queue, scope, name, rate) DO UPDATE SET count = excluded.count,
    period_ms = excluded.period_ms, burst = excluded.burst;

-- name: limit_remove
DELETE FROM quern_limit WHERE queue = ?1 AND scope = ?2 AND name = ?3;

-- The first that has no lanes of kind ?2; ?1: a queue, or 0: of all.
-- name: limit_lanes
SELECT no FROM quern_queue WHERE ?1 IN (0, no) AND lanes <> ?2 LIMIT 1;

-- Those of all queues, with the name ?2, come first.
-- name: limit_list
SELECT iif(l.queue = 0, ?2, q.name) AS queue_name, l.queue, l.scope, l.name, l.rate, l.count,
    l.period_ms, l.burst
FROM quern_limit AS l LEFT JOIN quern_queue AS q ON q.no = l.queue
WHERE (l.queue = 0 OR q.no IS NOT NULL) AND (?1 IS NULL OR queue_name = ?1)
ORDER BY l.queue > 0, q.name, l.scope, l.name, l.rate;
