-- trash_act.sql - deleted tasks come back (see queue/trash_rows.sql).

-- ?1: seq; ?2: a number of the counter, where it is pending: to the tail, as nothing is known of
-- its place; ?3: now, since when that one waits. Its lane is that of a task which the queue gets
-- now.
-- name: trash_restore
UPDATE quern_task SET queue = -queue,
    place = iif(state = 2,
        ?2 + iif(?2 <= 1 << 62 AND place >> 48 BETWEEN -100 AND 100, place >> 48, 0) * ?4, place),
    due_at_ms = iif(state = 2, ?3, due_at_ms),
    lane = (SELECT iif(q.lanes = 0, NULL,
            substr(coalesce(quern_task.lane, ''), 1,
                max(instr(coalesce(quern_task.lane, ''), char(31)) - 1, 0)) || char(31)
            || iif(q.lanes = 2, quern_task.type, ''))
        FROM quern_queue AS q WHERE q.no = -quern_task.queue)
WHERE seq = ?1 AND queue < 0;

-- Whether another task holds the lock of this one, ?1.
-- name: trash_locked
SELECT 1 FROM quern_task AS t JOIN quern_lock AS l ON l.key = t.unique_key
WHERE t.seq = ?1 AND l.until_ms > ?2 AND NOT (l.queue = ?3 AND l.id = t.id);

-- Until it would have ended, ?2; its own may still be there.
-- name: trash_lock
INSERT INTO quern_lock (key, queue, id, until_ms, fixed)
SELECT unique_key, queue, id, ?2, 0 FROM quern_task WHERE seq = ?1 AND unique_key IS NOT NULL
ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, id = excluded.id,
    until_ms = max(iif(queue = excluded.queue AND id = excluded.id, until_ms, 0),
        excluded.until_ms),
    fixed = iif(queue = excluded.queue AND id = excluded.id, fixed, 0);
