-- schedule.sql - entries, their ticks, and which scheduler leads.

-- --- Entries ---------------------------------------------------------------------------------

-- name: entry_find
SELECT revision, paused_at_ms, last_s FROM quern_entry WHERE queue = ?1 AND name = ?2;

-- The stored entry beside a new definition: do they have the same ticks, and is the rest equal?
-- name: entry_compare
SELECT revision, last_s, cron = ?3 AND zone = ?4 AND with_seconds = ?5,
    origin = ?6 AND misfire = ?7 AND misfire_max = ?8 AND late_ms = ?9 AND jitter_ms = ?10
        AND task = ?11
FROM quern_entry WHERE queue = ?1 AND name = ?2;

-- name: entry_put
INSERT INTO quern_entry (queue, name, cron, zone, with_seconds, origin, misfire, misfire_max,
    late_ms, jitter_ms, task, revision, created_at_ms, last_s)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (queue, name) DO UPDATE SET cron = excluded.cron, zone = excluded.zone,
    with_seconds = excluded.with_seconds, origin = excluded.origin, misfire = excluded.misfire,
    misfire_max = excluded.misfire_max, late_ms = excluded.late_ms,
    jitter_ms = excluded.jitter_ms, task = excluded.task, revision = excluded.revision,
    last_s = excluded.last_s;

-- name: entry_count
SELECT count(*) FROM quern_entry;

-- name: entry_remove
DELETE FROM quern_entry WHERE queue = ?1 AND name = ?2;

-- name: entry_pause
UPDATE quern_entry SET paused_at_ms = ?3, last_s = ?4, revision = ?5
WHERE queue = ?1 AND name = ?2;

-- name: entry_advance
UPDATE quern_entry SET last_s = ?3, runs = min(runs, 1 << 62) + ?4 WHERE queue = ?1 AND name = ?2;

-- A page in the order of the key, from the one behind (?1, ?2) on.
-- name: entry_page
SELECT e.queue, e.name, q.name, e.revision, e.origin, e.cron, e.zone, e.with_seconds, e.misfire,
    e.misfire_max, e.late_ms, e.jitter_ms, e.created_at_ms, e.paused_at_ms, e.last_s, e.runs, e.task
FROM quern_entry AS e JOIN quern_queue AS q ON q.no = e.queue
WHERE (e.queue, e.name) > (?1, ?2) AND (?3 IS NULL OR q.name = ?3) AND (?4 IS NULL OR e.name = ?4)
ORDER BY e.queue, e.name LIMIT ?5;

-- --- History ---------------------------------------------------------------------------------

-- name: tick_note
INSERT INTO quern_tick (queue, name, seq, tick_s, at_ms, what, skipped, id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- ?3: how many of an entry are kept.
-- name: tick_trim
DELETE FROM quern_tick WHERE queue = ?1 AND name = ?2 AND seq <= (
    SELECT seq FROM quern_tick WHERE queue = ?1 AND name = ?2
    ORDER BY seq DESC LIMIT 1 OFFSET ?3);

-- name: tick_history
SELECT tick_s, at_ms, what, skipped, id FROM quern_tick WHERE queue = ?1 AND name = ?2
ORDER BY seq DESC LIMIT ?3;

-- --- The leader ------------------------------------------------------------------------------

-- name: leader_read
SELECT epoch, version, owner, id, lease_until, until_ms FROM quern_leader WHERE one = 1;

-- name: leader_set
INSERT INTO quern_leader (one, epoch, version, owner, id, lease_until, until_ms)
VALUES (1, ?1, 0, ?2, ?3, ?4, ?5)
ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, id = excluded.id,
    lease_until = excluded.lease_until, until_ms = excluded.until_ms;

-- name: leader_set_version
INSERT INTO quern_leader (one, epoch, version, owner, id, lease_until, until_ms)
VALUES (1, 0, ?1, '', '', 0, 0)
ON CONFLICT (one) DO UPDATE SET version = excluded.version;
