-- doctor_trash.sql - the invariants of the trash, and their repairs; as in doctor.sql.

-- name: find_stray_trash
SELECT coalesce(q.name, ''), coalesce(t.id, ''),
    CASE WHEN t.seq IS NULL THEN 'the trash lists a task that does not exist'
        WHEN t.queue > 0 THEN 'the trash lists a task that is not deleted'
        ELSE 'the trash of another queue lists it' END,
    r.seq, NULL
FROM quern_trash AS r LEFT JOIN quern_task AS t ON t.seq = r.seq
    LEFT JOIN quern_queue AS q ON q.no = abs(coalesce(t.queue, r.queue))
WHERE t.seq IS NULL OR t.queue <> -r.queue;

-- name: repair_stray_trash
DELETE FROM quern_trash WHERE seq = ?1 AND NOT EXISTS (
    SELECT 1 FROM quern_task AS t WHERE t.seq = ?1 AND t.queue = -quern_trash.queue);

-- Nothing would show it, or ever remove it. Its lock is free.
-- name: find_unlisted_trash
SELECT coalesce(q.name, ''), t.id, 'it is deleted, but no trash lists it', t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = -t.queue
WHERE t.queue < 0 AND t.seq NOT IN (SELECT seq FROM quern_trash);

-- For a day from now on, as of trash_rows.sql (QN_TRASH_MS, QN_TRASH_TASK_BYTES).
-- name: repair_unlisted_trash
INSERT INTO quern_trash (seq, queue, until_ms, size, lock_until_ms)
SELECT seq, -queue, ?3 + 86400000,
    512 + coalesce(length(payload), 0) + coalesce(length(result), 0)
        + coalesce(length(headers), 0) + coalesce(length(error), 0), 0
FROM quern_task WHERE seq = ?1 AND queue < 0
ON CONFLICT (seq) DO NOTHING;

-- Longer than a day by a clock that was set back, or by damage.
-- name: find_overlong_trash
SELECT coalesce(q.name, ''), t.id,
    printf('it is kept in the trash for %d hours more', min((r.until_ms - ?1) / 3600000, 1 << 31)),
    r.seq, NULL
FROM quern_trash AS r JOIN quern_task AS t ON t.seq = r.seq
    LEFT JOIN quern_queue AS q ON q.no = r.queue
WHERE r.until_ms > ?1 + 2 * 86400000;

-- name: repair_overlong_trash
UPDATE quern_trash SET until_ms = ?3 + 86400000
WHERE seq = ?1 AND until_ms > ?3 + 2 * 86400000;

-- What a queue notes of its trash decides when that is full. A size beyond 2^40 is damage.
-- name: find_wrong_trash_use
SELECT q.name, '',
    printf('its trash is noted as %d tasks with %d bytes, not as %d with %d', q.trash_count,
        q.trash_bytes, coalesce(r.count, 0), coalesce(r.bytes, 0)), q.no, NULL
FROM quern_queue AS q LEFT JOIN (
    SELECT queue, count(*) AS count, sum(max(min(size, 1 << 40), 0)) AS bytes
    FROM quern_trash GROUP BY queue) AS r ON r.queue = q.no
WHERE q.trash_count <> coalesce(r.count, 0) OR q.trash_bytes <> coalesce(r.bytes, 0);

-- name: repair_wrong_trash_use
UPDATE quern_queue SET
    trash_count = (SELECT count(*) FROM quern_trash WHERE queue = ?1),
    trash_bytes = (SELECT coalesce(sum(max(min(size, 1 << 40), 0)), 0) FROM quern_trash
        WHERE queue = ?1)
WHERE no = ?1;
