-- extend.sql - what a worker writes about its runs while they run.

-- name: extend
UPDATE quern_task SET lease_until = ?3
WHERE seq = ?1 AND token = ?2 AND state = 1 RETURNING cancel;

-- For the planted fault only.
-- name: extend_bug
UPDATE quern_task SET token = token + 1 WHERE seq = ?1;

-- name: write_result
UPDATE quern_task SET result = ?3 WHERE seq = ?1 AND token = ?2 AND state = 1;

-- name: write_progress
UPDATE quern_task SET progress = ?3, progress_note = ?4
WHERE seq = ?1 AND token = ?2 AND state = 1;
