-- meter.sql - limits and what is used of them.

-- Its own, and those of each, ?4.
-- name: meter_limits
SELECT name, rate, count, period_ms, burst FROM quern_limit
WHERE queue = ?1 AND scope = ?2 AND name IN (?3, ?4);

-- All of a scope, up to so many.
-- name: meter_limits_few
SELECT name, rate, count, period_ms, burst FROM quern_limit
WHERE queue = ?1 AND scope = ?2 LIMIT ?3;

-- The semaphores of a queue.
-- name: meter_semaphores
SELECT name FROM quern_limit WHERE queue = ?1 AND scope = 4 AND rate = 0;

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

-- The runs of all queues that have this semaphore. 4096: QN_METER_SEMAPHORES.
-- name: meter_running_semaphore
SELECT count(*) FROM quern_task WHERE ?1 = 0 AND state = 1 AND +queue IN (
    SELECT q.no FROM quern_queue AS q CROSS JOIN quern_limit AS l
    WHERE q.limits & 4096 AND l.queue = q.no AND l.scope = 4 AND l.name = ?2 AND l.rate = 0);

-- For the planted faults only: 6, the worker died.
-- name: bug_meter_lost
SELECT count(*) FROM quern_task WHERE queue = ?1 AND state = 2 AND cause = 6;

-- The kinds that the queue has, as in meter.h; 0: in every queue, as a limit of all has changed.
-- name: meter_kinds_note
UPDATE quern_queue SET limits = coalesce(
    (SELECT sum(bit) FROM (SELECT DISTINCT iif(l.scope = 4, 4096,
            1 << ((l.scope - 1) * 2 + l.rate + iif(l.queue = 0, 6, 0))) AS bit
        FROM quern_limit AS l
        WHERE l.queue IN (0, quern_queue.no) AND l.scope BETWEEN 1 AND 4 AND l.rate IN (0, 1)
            AND (l.scope < 4 OR l.queue > 0 AND l.rate = 0))), 0)
WHERE ?1 IN (0, no);

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
