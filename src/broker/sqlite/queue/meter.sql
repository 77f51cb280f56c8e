-- meter.sql - limits and what is used of them.

-- Its own, and those of each.
-- name: meter_limits
SELECT name, rate, count, period_ms, burst FROM quern_limit
WHERE queue = ?1 AND scope = ?2 AND name IN (?3, '*');

-- The plus sign: see recover.sql.
-- name: meter_running_queue
SELECT count(*) FROM quern_task WHERE +queue = ?1 AND state = 1;

-- name: meter_running_type
SELECT count(*) FROM quern_task
WHERE queue = ?1 AND state = 1 AND min(crash_count, 1) IN (0, 1) AND lane IS NOT NULL
    AND substr(lane, instr(lane, char(31)) + 1) = ?2;

-- name: meter_running_key
SELECT count(*) FROM quern_task
WHERE queue = ?1 AND state = 1 AND min(crash_count, 1) IN (0, 1) AND lane IS NOT NULL
    AND lane >= ?2 || char(31) AND lane < ?2 || char(32);

-- The same over all queues. ?1 is the number of none.
-- name: meter_running_all
SELECT count(*) FROM quern_task WHERE state = 1 AND ?1 = 0;

-- name: meter_running_all_type
SELECT count(*) FROM quern_queue AS q CROSS JOIN quern_task AS t
WHERE ?1 = 0 AND t.queue = q.no AND t.state = 1 AND min(t.crash_count, 1) IN (0, 1)
    AND t.lane IS NOT NULL AND substr(t.lane, instr(t.lane, char(31)) + 1) = ?2;

-- name: meter_running_all_key
SELECT count(*) FROM quern_queue AS q CROSS JOIN quern_task AS t
WHERE ?1 = 0 AND t.queue = q.no AND t.state = 1 AND min(t.crash_count, 1) IN (0, 1)
    AND t.lane IS NOT NULL AND t.lane >= ?2 || char(31) AND t.lane < ?2 || char(32);

-- For the planted faults only: 6, the worker died.
-- name: bug_meter_lost
SELECT count(*) FROM quern_task WHERE queue = ?1 AND state = 2 AND cause = 6;

-- name: meter_use
SELECT period_ms, at_ms, debt, paid_at_ms, slots FROM quern_limit_use
WHERE queue = ?1 AND scope = ?2 AND name = ?3;

-- name: meter_use_write
INSERT INTO quern_limit_use (queue, scope, name, period_ms, at_ms, debt, paid_at_ms, slots,
    clear_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (queue, scope, name) DO UPDATE SET period_ms = excluded.period_ms,
    at_ms = excluded.at_ms, debt = excluded.debt, paid_at_ms = excluded.paid_at_ms,
    slots = excluded.slots, clear_at_ms = excluded.clear_at_ms;
