-- inspect.sql - listings: queues, workers, history, pages of tasks. Read transactions only, except
-- that operate.c selects its tasks by the pieces of pages.

-- Counts by index: each state is in exactly one partial index, see schema.sql. BETWEEN, since
-- beside the condition of the index SQLite makes no use of an equality.
-- name: queues
SELECT q.no, q.name, q.paused_at_ms, q.processed, q.failed, q.trimmed,
    (SELECT count(*) FROM quern_task INDEXED BY quern_task_lease
        WHERE queue = q.no AND state = 1),
    (SELECT count(*) FROM quern_task WHERE queue = q.no AND state = 2 AND crash_count = 0)
        + (SELECT count(*) FROM quern_task WHERE queue = q.no AND state = 2 AND crash_count > 0),
    (SELECT count(*) FROM quern_task WHERE queue = q.no AND state IN (3, 4) AND state = 3),
    (SELECT count(*) FROM quern_task WHERE queue = q.no AND state IN (3, 4) AND state = 4),
    (SELECT count(*) FROM quern_task WHERE queue = q.no AND state >= 5 AND state BETWEEN 5 AND 5),
    (SELECT count(*) FROM quern_task WHERE queue = q.no AND state >= 5 AND state BETWEEN 6 AND 6),
    (SELECT count(*) FROM quern_task WHERE queue = q.no AND state >= 5 AND state BETWEEN 7 AND 7),
    iif(EXISTS (SELECT 1 FROM quern_task
            WHERE queue = q.no AND state >= 5 AND state BETWEEN 7 AND 7),
        (SELECT count(DISTINCT grp) FROM quern_task
            WHERE queue = q.no AND state = 7 AND worker = 0), 0),
    (SELECT processed FROM quern_day WHERE queue = q.no AND day = ?1),
    (SELECT failed FROM quern_day WHERE queue = q.no AND day = ?1),
    (SELECT count(*) FROM quern_host WHERE queue = q.no AND streak >= ?2),
    (SELECT min(probe_at_ms) FROM quern_host WHERE queue = q.no AND streak >= ?2), q.max_pending
FROM quern_queue AS q WHERE q.name BETWEEN ?3 AND ?4 ORDER BY q.name;

-- Since when the first of each kind of pending tasks waits: uncharged, by priority (>> 48: see
-- QN_PRIORITY_STEP), or by level.
-- Each kind is queried separately, since only then it is in order in its index.
-- name: pending_since
WITH RECURSIVE head (place, since) AS (
    SELECT * FROM (SELECT place, max(due_at_ms, enqueued_at_ms) FROM quern_task
        WHERE queue = ?1 AND state = 2 AND crash_count = 0 ORDER BY place LIMIT 1)
    UNION ALL
    SELECT t.place, max(t.due_at_ms, t.enqueued_at_ms) FROM head
        JOIN quern_task AS t ON t.seq = (SELECT seq FROM quern_task
            WHERE queue = ?1 AND state = 2 AND crash_count = 0
                AND place >= ((head.place >> 48) + 1) << 48 ORDER BY place LIMIT 1)
    LIMIT 256)
SELECT since FROM head
UNION ALL
SELECT max(t.due_at_ms, t.enqueued_at_ms) FROM (VALUES (0), (1), (2), (3), (4)) AS one
    JOIN quern_task AS t ON t.seq = (SELECT seq FROM quern_task
        WHERE queue = ?1 AND state = 2 AND crash_count > 0
            AND level = one.column1 ORDER BY place LIMIT 1);

-- name: history
SELECT day, processed, failed FROM quern_day WHERE queue = ?1 AND day BETWEEN ?2 AND ?3;

-- name: workers
SELECT no, id, owner, host, pid, status, queues, concurrency, strict, started_at_ms,
    heartbeat_at_ms
FROM quern_worker ORDER BY started_at_ms, no;

-- name: worker_of_id
SELECT owner, status, queues, heartbeat_at_ms FROM quern_worker WHERE id = ?1;

-- In the order of the workers above, so that both are read side by side.
-- name: worker_runs
SELECT t.id, t.type, coalesce(q.name, ''), t.started_at_ms, t.timeout_ms, t.deadline_at_ms, w.no
FROM quern_task AS t JOIN quern_worker AS w ON w.no = t.worker
    LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state = 1 AND t.started = 1
ORDER BY w.started_at_ms, w.no, t.started_at_ms, t.seq;

-- All queues, or the one of that name.
-- name: queue_names
SELECT no, name FROM quern_queue WHERE ?1 IS NULL OR name = ?1 ORDER BY name;

-- Tasks whose ids are UUIDs that begin with ?1, found in the index of the ids: g is behind all
-- digits of a UUID.
-- name: match_id
SELECT q.name, t.id FROM quern_queue AS q
    CROSS JOIN quern_task AS t INDEXED BY quern_task_id ON t.queue = q.no
WHERE t.id >= ?1 AND t.id < ?1 || 'g' AND length(t.id) = 36;

-- name: boot
SELECT boot_id FROM quern_meta WHERE one = 1;

-- name: journal_mode
PRAGMA journal_mode;

-- Pieces of a page: the rows of one state of one queue, a condition that names the index by
-- repeating its WHERE, the filter, an order; put together by page.c. ?1 is the queue, then
-- come the values of the filter, then limit and offset.

-- name: page_select
SELECT seq, place FROM quern_task WHERE queue = ?1

-- name: page_select_active
SELECT seq, place FROM quern_task INDEXED BY quern_task_lease WHERE queue = ?1

-- name: page_select_id
SELECT seq, place FROM quern_task INDEXED BY quern_task_id WHERE queue = ?1 AND id = ?2

-- name: page_state_1
AND state = 1

-- name: page_state_2_plain
AND state = 2 AND crash_count = 0

-- The levels: without them SQLite walks through all tasks of the queue by id.
-- name: page_state_2_suspect
AND state = 2 AND crash_count > 0 AND level BETWEEN 0 AND 4

-- name: page_state_3
AND state IN (3, 4) AND state = 3

-- name: page_state_4
AND state IN (3, 4) AND state = 4

-- name: page_state_5
AND state >= 5 AND state BETWEEN 5 AND 5

-- name: page_state_6
AND state >= 5 AND state BETWEEN 6 AND 6

-- name: page_state_7
AND state >= 5 AND state BETWEEN 7 AND 7

-- Those that are in no set.
-- name: page_state_7_free
AND state >= 5 AND state BETWEEN 7 AND 7 AND worker = 0

-- Columns of an unused condition are not read, so without a filter an index alone answers. The text
-- is compared as bytes. cancel: those that are not marked so already.
-- name: page_filter
AND (?2 IS NULL OR id = ?2)
AND (?3 IS NULL OR type = ?3)
AND (?4 IS NULL OR substr(CAST(type AS BLOB), 1, length(?4)) = ?4)
AND (?5 IS NULL OR grp = ?5)
AND (?6 IS NULL OR instr(payload, ?6) > 0 OR instr(CAST(error AS BLOB), ?6) > 0)
AND (?7 = 0 OR cancel < ?7)

-- name: page_union
UNION ALL

-- name: page_order_lease
ORDER BY token, seq LIMIT ?8 OFFSET ?9

-- name: page_order_place
ORDER BY place LIMIT ?8 OFFSET ?9

-- name: page_order_soonest
ORDER BY at_ms, seq LIMIT ?8 OFFSET ?9

-- name: page_order_newest
ORDER BY at_ms DESC, seq DESC LIMIT ?8 OFFSET ?9

-- name: page_order_completed
ORDER BY completed_at_ms DESC, seq DESC LIMIT ?8 OFFSET ?9

-- name: task_fetch
SELECT t.seq, t.id, coalesce(q.name, ''), t.type, t.state, t.payload, t.result, t.retry_max,
    t.retry_count, t.crash_count, t.retry_kind, t.retry_base_ms, t.retry_cap_ms, t.error,
    t.failed_at_ms, t.timeout_ms, t.deadline_at_ms, t.retention_ms, t.grp, t.at_ms,
    t.enqueued_at_ms, t.due_at_ms, t.started_at_ms, t.completed_at_ms, t.cause, t.token,
    t.lease_until, coalesce(w.id, ''), t.progress, t.progress_note, t.headers, t.unique_key,
    t.start_by_at_ms, iif(t.place >> 48 BETWEEN -100 AND 100, -(t.place >> 48), 0),
    nullif(substr(t.lane, 1, instr(t.lane, char(31)) - 1), ''), t.run_limits, t.runs,
    t.cancel
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = max(t.queue, -t.queue)
    LEFT JOIN quern_worker AS w ON w.no = t.worker AND t.state = 1
WHERE t.seq = ?1;

-- How many there are, up to a limit.
-- name: page_count_open
SELECT count(*) FROM (

-- name: page_count_close
LIMIT ?8)

-- name: lock_holder
SELECT id FROM quern_lock WHERE key = ?1 AND until_ms > ?2;
