-- result.sql - results and progress of runs that go on.

-- name: write_result
UPDATE quern_task SET result = ?3 WHERE seq = ?1 AND token = ?2 AND state = 1;

-- name: write_progress
UPDATE quern_task SET progress = ?3, progress_note = ?4
WHERE seq = ?1 AND token = ?2 AND state = 1;
