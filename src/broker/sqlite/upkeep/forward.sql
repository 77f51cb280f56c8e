-- forward.sql - moving due tasks to pending, or to their group.

-- Not a delay that ends after ?5 on the clock of the boot ?4: it was dated while the wall clock was
-- behind. Beyond 1 << 62: see redate.sql.
-- name: forward_find
SELECT seq FROM quern_task WHERE queue = ?1 AND state IN (3, 4) AND at_ms <= ?2
    AND (due_boot_ms <= ?5 OR due_boot_ms > 1 << 62
        OR ?4 <> (SELECT boot_id FROM quern_meta WHERE one = 1))
ORDER BY at_ms LIMIT ?3;

-- The place as for a new task (place_of in enqueue.c); ?3: QN_PRIORITY_STEP. Beyond these bounds
-- the numbers were planted.
-- name: forward_move
UPDATE quern_task SET state = iif(coalesce(grp, '') = '', 2, 7), due_at_ms = at_ms,
    at_ms = iif(coalesce(grp, '') = '', 0, ?4), due_boot_ms = 0,
    place = ?2 + iif(?2 <= 1 << 62 AND place >> 48 BETWEEN -100 AND 100, place >> 48, 0) * ?3
WHERE seq = ?1;
