-- queue_counters.sql - the state and the counters of each queue.

-- Of the queue, and of its brake on one host (NULL: of none).
-- name: queue_counters_read
SELECT q.no, q.paused_at_ms, q.solo_owner, q.solo_since_ms, q.solo_until_ms, q.solo_rest_ms,
    h.ok_at_ms, h.streak, h.probes, h.probe_at_ms, h.probe_token, q.limits, q.lanes, q.terms,
    q.sort
FROM quern_queue AS q LEFT JOIN quern_host AS h ON h.queue = q.no AND h.host = ?2
WHERE q.name = ?1;

-- A counter that was set to the largest number must not keep runs from ending: beyond it
-- SQLite counts in floating point, which the column refuses. 1 << 62 leaves room to count on.
-- name: queue_counters_write
UPDATE quern_queue SET processed = min(processed, 1 << 62) + ?2,
    failed = min(failed, processed, 1 << 62) + ?3
WHERE no = ?1;

-- name: queue_counters_day
INSERT INTO quern_day (queue, day, processed, failed) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (queue, day) DO UPDATE SET processed = min(processed, 1 << 62) + excluded.processed,
    failed = min(failed, 1 << 62) + excluded.failed;
