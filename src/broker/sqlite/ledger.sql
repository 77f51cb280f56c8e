-- ledger.sql - what is counted of each queue, and how a crash ends a run.

-- name: ledger_read
SELECT no, paused_at_ms, crash_streak, streak_id FROM quern_queue WHERE name = ?1;

-- A counter that somebody has set to the largest number must not keep runs from ending: beyond it
-- SQLite counts in floating point, which the column refuses. 1 << 62 leaves room to count on.
-- name: ledger_write
UPDATE quern_queue SET processed = min(processed, 1 << 62) + ?2,
    failed = min(failed, processed, 1 << 62) + ?3, crash_streak = ?4, streak_id = ?5
WHERE no = ?1;

-- name: ledger_day
INSERT INTO quern_day (queue, day, processed, failed) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue, day) DO UPDATE SET processed = min(processed, 1 << 62) + excluded.processed,
    failed = min(failed, 1 << 62) + excluded.failed;

-- name: crash_read
SELECT crash_count, crashed_at_ms FROM quern_task WHERE seq = ?1 AND token = ?2 AND state = 1;

-- The token stays: a run that finished all the same can still be salvaged.
-- name: crash_write
UPDATE quern_task SET state = ?2, at_ms = ?3, crash_count = ?4, crashed_at_ms = ?5, cause = ?6,
    error = coalesce(?7, error), failed_at_ms = iif(?7 IS NULL, failed_at_ms, ?8),
    lease_until = 0, worker = 0, started = 0, started_at_ms = 0, cancel = 0, progress = -1,
    progress_note = NULL, due_boot_ms = iif(?2 = 4 AND ?9 <> 0, max(?3 - ?9, 1), 0)
WHERE seq = ?1;
