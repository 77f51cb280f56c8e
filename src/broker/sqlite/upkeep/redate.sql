-- redate.sql - delays follow the clock since boot, even if the wall clock is set.
--
-- at_ms - due_boot_ms is how far the wall clock was ahead of that clock when the row was dated. All
-- these columns are in the index quern_task_due. A value beyond 1 << 62 is not a date of ours, and
-- the column would refuse the sum: that must not keep other rows from being corrected. The moment
-- by which a task must have started moves with the end of its delay.

-- ?1, ?2: between these it is as now.
-- name: redate_look
SELECT m.boot_id,
    EXISTS (SELECT 1 FROM quern_task
        WHERE state IN (3, 4) AND due_boot_ms BETWEEN 1 AND 1 << 62
            AND at_ms - due_boot_ms < ?1)
    OR EXISTS (SELECT 1 FROM quern_task
        WHERE state IN (3, 4) AND due_boot_ms BETWEEN 1 AND 1 << 62
            AND at_ms - due_boot_ms > ?2)
FROM quern_meta AS m WHERE m.one = 1;

-- ?1: the bound; ?2: how far it is ahead now; ?3: how many at most.
-- name: redate_behind
UPDATE quern_task SET at_ms = due_boot_ms + ?2,
    start_by_at_ms = iif(start_by_at_ms BETWEEN 1 AND 1 << 60 AND at_ms BETWEEN 0 AND 1 << 60
            AND due_boot_ms <= 1 << 60,
        max(start_by_at_ms + (due_boot_ms + ?2 - at_ms), 1), start_by_at_ms)
WHERE seq IN (
    SELECT seq FROM quern_task
    WHERE state IN (3, 4) AND due_boot_ms BETWEEN 1 AND 1 << 62 AND at_ms - due_boot_ms < ?1
    LIMIT ?3);

-- name: redate_ahead
UPDATE quern_task SET at_ms = due_boot_ms + ?2,
    start_by_at_ms = iif(start_by_at_ms BETWEEN 1 AND 1 << 60 AND at_ms BETWEEN 0 AND 1 << 60
            AND due_boot_ms <= 1 << 60,
        max(start_by_at_ms + (due_boot_ms + ?2 - at_ms), 1), start_by_at_ms)
WHERE seq IN (
    SELECT seq FROM quern_task
    WHERE state IN (3, 4) AND due_boot_ms BETWEEN 1 AND 1 << 62 AND at_ms - due_boot_ms > ?1
    LIMIT ?3);

-- That clock is gone with its boot: from now on these are moments.
-- name: redate_forget
UPDATE quern_task SET due_boot_ms = 0 WHERE state IN (3, 4) AND due_boot_ms > 0;
