-- worker_death.sql - the death of a worker with all that it held. The plus signs: see recover.sql.

-- name: death_note
UPDATE quern_worker SET died_with =
    (SELECT count(*) FROM quern_task WHERE state = 1 AND worker = ?1 AND started = 1)
WHERE no = ?1 AND died_with < 0;

-- name: death_company
SELECT died_with FROM quern_worker WHERE no = ?1;

-- The queues that it had started runs of: the first one after a number.
-- name: death_next_queue
SELECT min(+queue) FROM quern_task
WHERE state = 1 AND worker = ?1 AND started = 1 AND +queue > ?2;

-- name: death_probe
SELECT seq FROM quern_task WHERE state = 1 AND worker = ?1 AND token = ?2;
