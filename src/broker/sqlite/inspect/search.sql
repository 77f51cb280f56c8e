-- search.sql - the rows of one state of one queue in the order of an index, from a position on,
-- each with the answer of a query. Put together by search.c: columns, the answer, rows.
--
-- ?1 is the queue; ?2, ?3, ?4 the position: key, second key, seq; ?5 the state, or the level; ?6
-- how many rows. The parameters of the answer follow. Each row is answered when it is stepped to,
-- since the index is in order: so no row beyond the page is read.

-- name: search_columns_place
SELECT seq, place, 0,

-- name: search_columns_charged
SELECT seq, place, died_at_ms,

-- name: search_columns_due
SELECT seq, at_ms, due_boot_ms,

-- name: search_columns_rest
SELECT seq, at_ms, 0,

-- name: search_columns_active
SELECT seq, token, 0,

-- Few; in the order of their leases, which no index has.
-- name: search_active
FROM quern_task INDEXED BY quern_task_lease
WHERE queue = ?1 AND state = 1 AND (token, seq) > (?2, ?4)
ORDER BY token, seq LIMIT ?6

-- name: search_pending
FROM quern_task INDEXED BY quern_task_pending
WHERE queue = ?1 AND state = 2 AND crash_count = 0 AND (place, seq) > (?2, ?4)
ORDER BY place, seq LIMIT ?6

-- Those of one level.
-- name: search_charged
FROM quern_task INDEXED BY quern_task_charged
WHERE queue = ?1 AND state = 2 AND crash_count > 0 AND level = ?5
    AND (place, died_at_ms, seq) > (?2, ?3, ?4)
ORDER BY place, died_at_ms, seq LIMIT ?6

-- name: search_due
FROM quern_task INDEXED BY quern_task_due
WHERE queue = ?1 AND state IN (3, 4) AND +state = ?5
    AND (at_ms, state, due_boot_ms, seq) > (?2, ?5, ?3, ?4)
ORDER BY at_ms, state, due_boot_ms, seq LIMIT ?6

-- name: search_oldest
FROM quern_task INDEXED BY quern_task_rest
WHERE queue = ?1 AND state >= 5 AND state <= ?5 AND (state, at_ms, seq) > (?5, ?2, ?4)
ORDER BY state, at_ms, seq LIMIT ?6

-- name: search_newest
FROM quern_task INDEXED BY quern_task_rest
WHERE queue = ?1 AND state >= 5 AND state >= ?5 AND (state, at_ms, seq) < (?5, ?2, ?4)
ORDER BY state DESC, at_ms DESC, seq DESC LIMIT ?6
