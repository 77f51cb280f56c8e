-- recover.sql - ending leases whose worker is gone.

-- name: recover_workers
SELECT no, owner, heartbeat_at_ms, id, host, status FROM quern_worker ORDER BY no;

-- name: recover_boot
SELECT boot_id FROM quern_meta WHERE one = 1;

-- name: recover_set_boot
UPDATE quern_meta SET boot_id = ?1 WHERE one = 1;

-- The clock of these leases is gone with its boot. 1 is long ago on any clock, and means: void. A
-- worker of this boot (an owner begins with its id) may have leased before anybody recovered.
-- name: recover_void
UPDATE quern_task SET lease_until = 1 WHERE state = 1
    AND worker NOT IN (SELECT no FROM quern_worker WHERE substr(owner, 1, 36) = ?1);

-- name: recover_void_sets
UPDATE quern_set SET lease_until = 1
WHERE worker NOT IN (SELECT no FROM quern_worker WHERE substr(owner, 1, 36) = ?1);

-- name: recover_peek
SELECT 1 FROM quern_task WHERE state = 1 AND lease_until <= ?1 LIMIT 1;

-- The plus signs keep SQLite from walking through all tasks of the queue by the index of ids:
-- active tasks are few, and in an index of their own.
-- name: recover_of_worker
SELECT seq, token, id, started, worker, lease_until, started_at_ms, cause FROM quern_task
WHERE state = 1 AND +queue = ?1 AND worker = ?2 LIMIT ?3;

-- name: recover_expired
SELECT seq, token, id, started, worker, lease_until, started_at_ms, cause FROM quern_task
WHERE state = 1 AND +queue = ?1 AND lease_until <= ?2
    AND (lease_until, worker, seq) > (?3, ?4, ?5)
ORDER BY lease_until, queue, worker, seq LIMIT ?6;

-- name: recover_remove_worker
DELETE FROM quern_worker WHERE no = ?1
    AND NOT EXISTS (SELECT 1 FROM quern_task WHERE state = 1 AND worker = ?1);
