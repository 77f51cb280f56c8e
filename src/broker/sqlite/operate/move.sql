-- move.sql - tasks go to another queue by hand.

-- ?3: now. Of its lock: whether it holds it; one that holds whatever becomes of the task stays
-- behind.
-- name: move_read
SELECT t.seq, t.state, t.state = 7 AND t.worker <> 0, t.unique_key,
    coalesce(instr(t.lane, char(31)), 0) > 1,
    t.start_by_at_ms IS NOT NULL OR t.unique_terms IS NOT NULL OR t.run_limits IS NOT NULL,
    EXISTS (SELECT 1 FROM quern_lock AS l WHERE l.key = t.unique_key AND l.queue = t.queue
        AND l.id = t.id AND l.fixed = 0 AND l.until_ms > ?3)
FROM quern_task AS t INDEXED BY quern_task_id WHERE t.queue = ?1 AND t.id = ?2;

-- Whether queue ?1 has a task with the id ?2, and whether a task there holds the lock ?3 (NULL:
-- none is needed).
-- name: move_refused
SELECT EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND id = ?2),
    EXISTS (SELECT 1 FROM quern_lock WHERE key = ?3 AND until_ms > ?4);

-- ?3: its lock there; ?4: the lanes of that queue; ?5: a number of the counter, where it is
-- pending: to the tail of its priority (?6: QN_PRIORITY_STEP). Its token ends, so that no late
-- outcome can take it.
-- name: move_task
UPDATE quern_task SET queue = ?2, unique_key = ?3, token = 0,
    lane = iif(?4 = 0, NULL,
        substr(coalesce(lane, ''), 1, max(instr(coalesce(lane, ''), char(31)) - 1, 0))
        || char(31) || iif(?4 = 2, type, '')),
    place = iif(state = 2,
        ?5 + iif(?5 <= 1 << 62 AND place >> 48 BETWEEN -100 AND 100, place >> 48, 0) * ?6, place)
WHERE seq = ?1;

-- One of that name whose time is over is replaced.
-- name: move_lock
UPDATE OR REPLACE quern_lock SET key = ?1, queue = ?2
WHERE key = ?3 AND queue = ?4 AND id = ?5 AND fixed = 0;
