-- deaths.sql - how a run ends without an outcome of its own: its process died, or its lease ended.

-- name: death_read
SELECT crash_count, lone, life_ms, crashed_at_ms, died_at_ms, retry_count >= retry_max,
    unique_key IS NOT NULL, unique_terms & 7, level, runs
FROM quern_task WHERE seq = ?1 AND token = ?2 AND state = 1;

-- The token stays: a run that finished all the same can still be salvaged.
-- name: death_write
UPDATE quern_task SET state = ?2, at_ms = ?3, cause = ?4, error = coalesce(?5, error),
    failed_at_ms = iif(?5 IS NULL, failed_at_ms, ?6), crash_count = ?7, lone = ?8, life_ms = ?9,
    crashed_at_ms = ?10, died_at_ms = ?11,
    lease_until = 0, worker = 0, started = 0, started_at_ms = 0, cancel = 0, progress = -1,
    progress_note = NULL, due_boot_ms = iif(?2 = 4 AND ?12 <> 0, max(?3 - ?12, 1), 0),
    start_by_at_ms = iif(?13, NULL, start_by_at_ms), level = iif(?7 > 0, ?14, NULL),
    runs = coalesce(?15, runs)
WHERE seq = ?1;
