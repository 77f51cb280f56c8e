-- sort.sql - giving the tasks of a queue their lanes. ?2: quern_queue.lanes.

-- From now on the queue has lanes of this kind.
-- name: sort_begin
UPDATE quern_queue SET lanes = ?2, sort = ?3, sort_place = ?4, sort_id = '' WHERE no = ?1;

-- The plus sign: see recover.sql.
-- name: sort_active
UPDATE quern_task SET lane = coalesce(substr(lane, 1, instr(lane, char(31)) - 1), '') || char(31) ||
    iif(?2 = 2, type, '')
WHERE +queue = ?1 AND state = 1;

-- A page: the next ?3 pending ones.
-- name: sort_pending
UPDATE quern_task SET lane = coalesce(substr(lane, 1, instr(lane, char(31)) - 1), '') || char(31) ||
    iif(?2 = 2, type, '')
WHERE queue = ?1 AND state = 2 AND crash_count = 0
    AND place > (SELECT sort_place FROM quern_queue WHERE no = ?1)
    AND place <= (SELECT max(place) FROM (SELECT place FROM quern_task
        WHERE queue = ?1 AND state = 2 AND crash_count = 0
            AND place > (SELECT sort_place FROM quern_queue WHERE no = ?1)
        ORDER BY place LIMIT ?3));

-- Goes on behind that page; no change: there was none.
-- name: sort_pending_to
UPDATE quern_queue SET sort_place = page.last
FROM (SELECT max(place) AS last FROM (SELECT place FROM quern_task
    WHERE queue = ?1 AND state = 2 AND crash_count = 0
        AND place > (SELECT sort_place FROM quern_queue WHERE no = ?1)
    ORDER BY place LIMIT ?2)) AS page
WHERE no = ?1 AND page.last IS NOT NULL;

-- The same with tasks in any state, of which most have their lane.
-- name: sort_rest
UPDATE quern_task SET lane = coalesce(substr(lane, 1, instr(lane, char(31)) - 1), '') || char(31) ||
    iif(?2 = 2, type, '')
WHERE queue = ?1 AND id > (SELECT sort_id FROM quern_queue WHERE no = ?1)
    AND id <= (SELECT max(id) FROM (SELECT id FROM quern_task
        WHERE queue = ?1 AND id > (SELECT sort_id FROM quern_queue WHERE no = ?1)
        ORDER BY id LIMIT ?3))
    AND lane IS NOT (coalesce(substr(lane, 1, instr(lane, char(31)) - 1), '') ||
        char(31) || iif(?2 = 2, type, ''));

-- name: sort_rest_to
UPDATE quern_queue SET sort_id = page.last
FROM (SELECT max(id) AS last FROM (SELECT id FROM quern_task
    WHERE queue = ?1 AND id > (SELECT sort_id FROM quern_queue WHERE no = ?1)
    ORDER BY id LIMIT ?2)) AS page
WHERE no = ?1 AND page.last IS NOT NULL;

-- name: sort_next
UPDATE quern_queue SET sort = ?2 WHERE no = ?1;

-- name: sort_row
UPDATE quern_task SET lane = coalesce(substr(lane, 1, instr(lane, char(31)) - 1), '') || char(31) ||
    iif(?2 = 2, type, '')
WHERE seq = ?1;
