-- drained.sql - what --drain and --until-idle ask.

-- The plus sign: see recover.sql.
-- name: queue_busy
SELECT EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0)
    OR EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0)
    OR EXISTS (SELECT 1 FROM quern_task WHERE +queue = ?1 AND state = 1)
    OR EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state IN (3, 4))
    OR EXISTS (SELECT 1 FROM quern_set WHERE queue = ?1);

-- name: queue_pending
SELECT EXISTS (SELECT 1 FROM quern_queue WHERE no = ?1 AND paused_at_ms = 0)
    AND (EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count = 0)
        OR EXISTS (SELECT 1 FROM quern_task WHERE queue = ?1 AND state = 2 AND crash_count > 0));
