-- prune.sql - removes expired rows. Each statement removes at most ?limit rows.
--
-- "state >= 5" names the index; "likely", and a bound on at_ms, keep SQLite from taking it for the
-- best bound: it would read and sort all rows.

-- name: prune_peek_queue
SELECT EXISTS (SELECT 1 FROM quern_task
               WHERE queue = ?1 AND likely(state >= 5) AND state = 6 AND at_ms <= ?2)
    OR EXISTS (SELECT 1 FROM quern_task
               WHERE queue = ?1 AND likely(state >= 5) AND state = 5 AND at_ms <= ?3)
    OR EXISTS (SELECT 1 FROM quern_task
               WHERE queue = ?1 AND likely(state >= 5) AND state = 5 AND at_ms >= 0
               ORDER BY at_ms DESC LIMIT 1 OFFSET ?4);

-- name: prune_peek_rest
SELECT EXISTS (SELECT 1 FROM quern_lock WHERE until_ms <= ?1)
    OR EXISTS (SELECT 1 FROM quern_day WHERE day < ?2)
    OR EXISTS (SELECT 1 FROM quern_session WHERE at_ms < ?3)
    OR EXISTS (SELECT 1 FROM quern_host WHERE written_at_ms < ?4)
    OR EXISTS (SELECT 1 FROM quern_tick WHERE at_ms < ?5)
    OR EXISTS (SELECT 1 FROM quern_limit_use WHERE clear_at_ms <= ?1)
    OR EXISTS (SELECT 1 FROM quern_trash WHERE until_ms <= ?6);

-- name: prune_completed
DELETE FROM quern_task WHERE seq IN (
    SELECT seq FROM quern_task WHERE queue = ?1 AND likely(state >= 5) AND state = 6 AND at_ms <= ?2
    ORDER BY at_ms LIMIT ?3)
RETURNING unique_key, id;

-- name: prune_old_archived
DELETE FROM quern_task WHERE seq IN (
    SELECT seq FROM quern_task WHERE queue = ?1 AND likely(state >= 5) AND state = 5 AND at_ms <= ?2
    ORDER BY at_ms LIMIT ?3)
RETURNING unique_key, id;

-- How many archived tasks are too many, counted no further than the limit; ?2 is the size of a full
-- archive. Those that go are the oldest.
-- name: prune_surplus
SELECT count(*) FROM (
    SELECT 1 FROM quern_task WHERE queue = ?1 AND likely(state >= 5) AND state = 5
        AND at_ms >= 0
    ORDER BY at_ms DESC LIMIT ?3 OFFSET ?2);

-- name: prune_trimmed
UPDATE quern_queue SET trimmed = min(trimmed, 1 << 62) + ?2 WHERE no = ?1;

-- name: prune_locks
DELETE FROM quern_lock WHERE key IN (SELECT key FROM quern_lock WHERE until_ms <= ?1 LIMIT ?2);

-- name: prune_days
DELETE FROM quern_day WHERE (queue, day) IN (
    SELECT queue, day FROM quern_day WHERE day < ?1 LIMIT ?2);

-- name: prune_sessions
DELETE FROM quern_session WHERE id IN (SELECT id FROM quern_session WHERE at_ms < ?1 LIMIT ?2);

-- name: prune_hosts
DELETE FROM quern_host WHERE (queue, host) IN (
    SELECT queue, host FROM quern_host WHERE written_at_ms < ?1 LIMIT ?2);

-- name: prune_ticks
DELETE FROM quern_tick WHERE (queue, name, seq) IN (
    SELECT queue, name, seq FROM quern_tick WHERE at_ms < ?1 LIMIT ?2);

-- name: prune_limit_uses
DELETE FROM quern_limit_use WHERE (queue, scope, name) IN (
    SELECT queue, scope, name FROM quern_limit_use WHERE clear_at_ms <= ?1 LIMIT ?2);
