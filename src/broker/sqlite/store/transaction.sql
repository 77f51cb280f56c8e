-- transaction.sql - beginning and ending a transaction.

-- name: begin_write
BEGIN IMMEDIATE;

-- name: begin_read
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;
