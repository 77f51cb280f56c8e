-- insert.sql - the row of a new task.

-- No change: there is a task with this id in the queue. seq is a number of the counter, so that it
-- never names another task later.
-- name: task_insert
INSERT INTO quern_task (seq, place, queue, id, state, retry_max, timeout_ms, enqueued_at_ms, type,
    headers, payload, retry_kind, retry_base_ms, retry_cap_ms, deadline_at_ms, retention_ms, at_ms,
    due_boot_ms, unique_key, grp, start_by_at_ms, unique_terms, run_limits, lane)
VALUES (?1, ?12, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22, ?23, ?24, ?11)
ON CONFLICT (queue, id) DO NOTHING;

-- The same of a plain task, which has the usual values (NULL, 0) in all other columns.
-- name: task_insert_plain
INSERT INTO quern_task (seq, place, queue, id, state, retry_max, timeout_ms, enqueued_at_ms, type,
    headers, payload)
VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (queue, id) DO NOTHING;
