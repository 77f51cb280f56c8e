-- late.sql - the indexes that are made by the transaction that stores the first lane or the first
-- task with a group in the file (late.h).

-- Tasks by state and lane, those that are charged apart.
-- name: late_lane
CREATE INDEX IF NOT EXISTS quern_task_lane ON quern_task (queue, state, min(crash_count, 1), lane,
    place) WHERE lane IS NOT NULL;

-- The waiting tasks of each group, the oldest first.
-- name: late_group
CREATE INDEX IF NOT EXISTS quern_task_group ON quern_task (queue, grp, at_ms, place)
    WHERE state = 7 AND worker = 0;

-- The members of each set.
-- name: late_set
CREATE INDEX IF NOT EXISTS quern_task_set ON quern_task (worker, at_ms, place)
    WHERE state = 7 AND worker > 0;

-- What the file needs: the first index; the other two.
-- name: late_needed
SELECT EXISTS (SELECT 1 FROM quern_queue WHERE lanes <> 0)
        OR EXISTS (SELECT 1 FROM quern_limit WHERE scope IN (2, 3)),
    EXISTS (SELECT 1 FROM quern_task WHERE state >= 5 AND state = 7);

-- The same of a file of an older version, which has no lanes. Tasks of groups may be in any state.
-- name: late_needed_before
SELECT 0, EXISTS (SELECT 1 FROM quern_task WHERE grp <> '');
