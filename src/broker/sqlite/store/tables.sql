-- tables.sql - the few statements on our tables that several rooms need.

-- name: queue_find
SELECT no FROM quern_queue WHERE name = ?1;

-- With the limits of all queues (queue 0, see queue/meter.h), and lanes where one is by type.
-- name: queue_make
INSERT INTO quern_queue (name, limits, lanes) VALUES (?1,
    coalesce((SELECT sum(bit) FROM (SELECT DISTINCT 64 << ((scope - 1) * 2 + rate) AS bit
        FROM quern_limit WHERE queue = 0 AND scope BETWEEN 1 AND 3 AND rate IN (0, 1))), 0),
    iif(EXISTS (SELECT 1 FROM quern_limit WHERE queue = 0 AND scope = 2), 2, 0))
RETURNING no;

-- For the planted faults only.
-- name: bug_queue_make
INSERT INTO quern_queue (name) VALUES (?1) RETURNING no;

-- No row: there is none, or its counter is damaged. The largest number is never given, so that
-- callers may count one further.
-- name: numbers
UPDATE quern_meta SET counter = counter + ?1
WHERE one = 1 AND counter BETWEEN 0 AND 9223372036854775806 - ?1
RETURNING counter;

-- name: next_due
SELECT at_ms FROM quern_task WHERE queue = ?1 AND state IN (3, 4) ORDER BY at_ms LIMIT 1;

-- Only its own lock: a later task with the same key may hold a new one.
-- name: lock_free
DELETE FROM quern_lock WHERE key = ?1 AND queue = ?2 AND id = ?3 AND fixed = 0;
