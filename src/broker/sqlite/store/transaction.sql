-- transaction.sql - transactions, and the small pieces that several operations share.

-- name: begin_write
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: queue_find
SELECT no FROM quern_queue WHERE name = ?1;

-- name: queue_make
INSERT INTO quern_queue (name) VALUES (?1) RETURNING no;

-- name: numbers
UPDATE quern_meta SET counter = counter + ?1 WHERE one = 1 RETURNING counter;

-- name: next_due
SELECT at_ms FROM quern_task WHERE queue = ?1 AND state IN (3, 4) ORDER BY at_ms LIMIT 1;

-- Only its own lock: a later task with the same key may hold a new one.
-- name: lock_free
DELETE FROM quern_lock WHERE key = ?1 AND queue = ?2 AND id = ?3;

-- name: session_find
SELECT sequence, reply FROM quern_session WHERE id = ?1;

-- name: session_keep
INSERT INTO quern_session (id, sequence, reply, at_ms) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (id) DO UPDATE SET sequence = excluded.sequence, reply = excluded.reply,
    at_ms = excluded.at_ms;
