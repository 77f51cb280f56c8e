-- edit.sql - one task is edited by hand.

-- ?6: its new moment, and ?7 its end on the boot clock where it is a delay; NULL: as it is. ?9: its
-- priority becomes ?10 (?11: QN_PRIORITY_STEP); among the others of that it stands where its number
-- puts it. Its lane is that of a task which the queue gets now, as the sorting of lanes may have
-- passed its new place.
-- name: task_edit
UPDATE quern_task SET payload = ?2, retry_max = ?3, timeout_ms = ?4, retention_ms = ?5,
    start_by_at_ms = iif(?6 IS NULL, start_by_at_ms, nullif(?8, 0)),
    at_ms = coalesce(?6, at_ms), due_boot_ms = iif(?6 IS NULL, due_boot_ms, ?7),
    deadline_at_ms = ?12, run_limits = ?13, retry_kind = ?14, retry_base_ms = ?15,
    retry_cap_ms = ?16,
    place = iif(?9, (place & (?11 - 1)) - ?10 * ?11, place),
    lane = iif(?9, (SELECT iif(q.lanes = 0, NULL,
            substr(coalesce(quern_task.lane, ''), 1,
                max(instr(coalesce(quern_task.lane, ''), char(31)) - 1, 0)) || char(31)
            || iif(q.lanes = 2, quern_task.type, ''))
        FROM quern_queue AS q WHERE q.no = quern_task.queue), lane)
WHERE seq = ?1;

-- Whether it is a member of a set, and has a lock.
-- name: task_edit_read
SELECT state = 7 AND worker <> 0, unique_key IS NOT NULL FROM quern_task WHERE seq = ?1;
