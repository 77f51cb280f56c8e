-- trash_rows.sql - the rows of deleted tasks (see schema.sql).

-- Lists a task, ?1, until ?2; first, while its lock is there.
-- name: trash_add
INSERT INTO quern_trash (seq, queue, until_ms, size, lock_until_ms)
SELECT t.seq, t.queue, ?2,
    ?3 + coalesce(length(t.payload), 0) + coalesce(length(t.result), 0)
        + coalesce(length(t.headers), 0) + coalesce(length(t.error), 0),
    coalesce((SELECT until_ms FROM quern_lock AS l
        WHERE l.key = t.unique_key AND l.queue = t.queue AND l.id = t.id), 0)
FROM quern_task AS t WHERE t.seq = ?1
RETURNING size;

-- Its token ends, so that no late outcome can take it.
-- name: trash_hide
UPDATE quern_task SET queue = -queue, token = 0 WHERE seq = ?1;

-- The row of a deleted task.
-- name: trash_find
SELECT t.seq, r.until_ms, r.size, r.lock_until_ms, t.state, t.unique_key
FROM quern_task AS t INDEXED BY quern_task_id JOIN quern_trash AS r ON r.seq = t.seq
WHERE t.queue = -?1 AND t.id = ?2;

-- name: trash_forget
DELETE FROM quern_trash WHERE seq = ?1;

-- name: trash_remove
DELETE FROM quern_task WHERE seq = ?1 AND queue < 0;

-- name: trash_room
SELECT trash_count, trash_bytes FROM quern_queue WHERE no = ?1;

-- By ?2 tasks and ?3 bytes.
-- name: trash_count
UPDATE quern_queue SET trash_count = max(min(max(trash_count, 0), 1 << 40) + ?2, 0),
    trash_bytes = iif(trash_count + ?2 <= 0, 0, max(min(max(trash_bytes, 0), 1 << 60) + ?3, 0))
WHERE no = ?1;

-- The first whose day is over.
-- name: trash_over
SELECT seq, queue, size FROM quern_trash WHERE until_ms <= ?1 ORDER BY until_ms LIMIT 1;

-- Those of a queue, the latest first, from a position on.
-- name: trash_page
SELECT seq, until_ms FROM quern_trash INDEXED BY quern_trash_queue
WHERE queue = ?1 AND (until_ms, seq) < (?2, ?3) AND until_ms > ?4
ORDER BY until_ms DESC, seq DESC LIMIT ?5;

-- The same, the oldest first.
-- name: trash_page_oldest
SELECT seq, until_ms FROM quern_trash INDEXED BY quern_trash_queue
WHERE queue = ?1 AND (until_ms, seq) > (?2, ?3) AND until_ms > ?4
ORDER BY until_ms, seq LIMIT ?5;
