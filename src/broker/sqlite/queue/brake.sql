-- brake.sql - the brakes of queues on hosts, and the tasks that probe whether they are needed.

-- name: brake_read
SELECT ok_at_ms, streak, probes, probe_at_ms, probe_token FROM quern_host
WHERE queue = ?1 AND host = ?2;

-- name: brake_write
INSERT INTO quern_host (queue, host, ok_at_ms, streak, probes, probe_at_ms, probe_token,
    written_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (queue, host) DO UPDATE SET ok_at_ms = excluded.ok_at_ms, streak = excluded.streak,
    probes = excluded.probes, probe_at_ms = excluded.probe_at_ms,
    probe_token = excluded.probe_token, written_at_ms = excluded.written_at_ms;

-- The plus sign: see recover.sql.
-- name: probe_find
SELECT seq FROM quern_task WHERE state = 1 AND +queue = ?1 AND token = ?2;

-- Behind the others of its priority, see forward.sql.
-- name: probe_behind
UPDATE quern_task SET
    place = ?2 + iif(?2 <= 1 << 62 AND place >> 48 BETWEEN -100 AND 100, place >> 48, 0) * ?3
WHERE seq = ?1;

-- name: probe_newest
SELECT seq, 0 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0
ORDER BY place DESC LIMIT 1;

-- name: probe_oldest
SELECT seq, 0 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0
ORDER BY place LIMIT 1;

-- Of the charged ones, those of the levels ?2 to ?3 (4: or more).
-- name: probe_charged
SELECT seq, level FROM quern_task
WHERE queue = ?1 AND state = 2 AND crash_count > 0 AND level BETWEEN ?2 AND ?3
ORDER BY died_at_ms, place LIMIT 1;

-- For the planted faults only.
-- name: bug_brake
SELECT ok_at_ms, streak, probes, probe_at_ms, probe_token FROM quern_host
WHERE queue = ?1 ORDER BY streak DESC LIMIT 1;

-- name: bug_ok
SELECT max(ok_at_ms) FROM quern_host WHERE queue = ?1;
