-- limit.sql - limits as an operator sets them.

-- name: limit_set
INSERT INTO quern_limit (queue, scope, name, rate, count, period_ms, burst)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (queue, scope, name, rate) DO UPDATE SET count = excluded.count,
    period_ms = excluded.period_ms, burst = excluded.burst;

-- name: limit_remove
DELETE FROM quern_limit WHERE queue = ?1 AND scope = ?2 AND name = ?3;

-- The kinds that the queue has, as in meter.h.
-- name: limit_note
UPDATE quern_queue SET limits = coalesce(
    (SELECT sum(bit) FROM (SELECT DISTINCT 1 << ((scope - 1) * 2 + rate) AS bit FROM quern_limit
                           WHERE queue = ?1 AND scope BETWEEN 1 AND 3 AND rate IN (0, 1))), 0)
WHERE no = ?1;

-- name: limit_lanes
SELECT lanes FROM quern_queue WHERE no = ?1;

-- name: limit_list
SELECT q.name, q.no, l.scope, l.name, l.rate, l.count, l.period_ms, l.burst
FROM quern_queue AS q JOIN quern_limit AS l ON l.queue = q.no
WHERE ?1 IS NULL OR q.name = ?1
ORDER BY q.name, l.scope, l.name, l.rate;
