-- outcome.sql - how runs end. Every statement applies only while the token is that of the lease
-- (?1 seq, ?2 token); no change means that the lease was lost.

-- name: outcome_delete
DELETE FROM quern_task WHERE seq = ?1 AND token = ?2 AND state = 1;

-- name: outcome_complete
UPDATE quern_task SET state = 6, at_ms = ?3, completed_at_ms = ?4, result = iif(?5, ?6, result),
    lease_until = 0, worker = 0, started = 0, started_at_ms = 0, cancel = 0, progress = -1,
    progress_note = NULL, runs = coalesce(?7, runs)
WHERE seq = ?1 AND token = ?2 AND state = 1;

-- It has not been started since: it waits because its lease expired (4) or its worker seemed dead
-- (6).
-- name: salvage_delete
DELETE FROM quern_task WHERE seq = ?1 AND token = ?2 AND state IN (2, 4) AND cause IN (4, 6);

-- name: salvage_complete
UPDATE quern_task SET state = 6, at_ms = ?3, completed_at_ms = ?4, result = iif(?5, ?6, result),
    runs = coalesce(?7, runs)
WHERE seq = ?1 AND token = ?2 AND state IN (2, 4) AND cause IN (4, 6);

-- Its run has an outcome: there is nothing left to salvage.
-- name: outcome_retry
UPDATE quern_task SET state = 4, token = 0, at_ms = ?3, retry_count = retry_count + ?4, cause = ?5,
    error = coalesce(?6, error), failed_at_ms = iif(?4, ?7, failed_at_ms),
    lease_until = 0, worker = 0, started = 0, started_at_ms = 0, cancel = 0, progress = -1,
    progress_note = NULL, due_boot_ms = iif(?8 = 0, 0, max(?3 - ?8, 1)),
    start_by_at_ms = iif(?9, NULL, start_by_at_ms), runs = coalesce(?10, runs)
WHERE seq = ?1 AND token = ?2 AND state = 1;

-- name: outcome_archive
UPDATE quern_task SET state = 5, at_ms = ?3, error = coalesce(?4, error), failed_at_ms = ?3,
    lease_until = 0, worker = 0, started = 0, started_at_ms = 0, cancel = 0, progress = -1,
    progress_note = NULL, runs = coalesce(?5, runs)
WHERE seq = ?1 AND token = ?2 AND state = 1;

-- It keeps its place, before all tasks that came later.
-- name: outcome_give_back
UPDATE quern_task SET state = 2, cause = ?3, start_by_at_ms = iif(?4, NULL, start_by_at_ms),
    lease_until = 0, worker = 0, started = 0, started_at_ms = 0, cancel = 0, progress = -1,
    progress_note = NULL, runs = coalesce(?5, runs)
WHERE seq = ?1 AND token = ?2 AND state = 1;

-- The runs before this one.
-- name: outcome_runs
SELECT runs FROM quern_task WHERE seq = ?1 AND token = ?2;

-- For the planted faults only.
-- name: bug_token
SELECT token FROM quern_task WHERE seq = ?1;

-- name: bug_place
UPDATE quern_task SET place = ?2 WHERE seq = ?1;

-- name: mark_started
UPDATE quern_task SET started = 1, started_at_ms = ?3
WHERE seq = ?1 AND token = ?2 AND state = 1;
