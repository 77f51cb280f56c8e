-- extend.sql - longer leases.

-- name: extend
UPDATE quern_task SET lease_until = ?3
WHERE seq = ?1 AND token = ?2 AND state = 1 RETURNING cancel;

-- For the planted fault only.
-- name: extend_bug
UPDATE quern_task SET token = token + 1 WHERE seq = ?1;
