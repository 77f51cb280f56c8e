-- forward.sql - moving due tasks to pending.

-- name: forward_find
SELECT seq FROM quern_task WHERE queue = ?1 AND state IN (3, 4) AND at_ms <= ?2
ORDER BY at_ms LIMIT ?3;

-- name: forward_move
UPDATE quern_task SET state = 2, place = ?2, due_at_ms = at_ms, at_ms = 0, due_boot_ms = 0
WHERE seq = ?1;
