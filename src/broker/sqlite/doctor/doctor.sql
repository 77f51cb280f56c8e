-- doctor.sql - the invariants of the data (docs/internals/invariants.md), and their repairs.
--
-- A "find" gives the rows that break a rule: queue, id, text, and a number and a text that name
-- the row to its "repair". ?1 is now (wall clock), ?2 the moment up to which leases have expired
-- (boot clock), ?3 the version of the schema, ?4 the size of a full archive, ?5 a number that
-- nothing can be counted to, ?6 how far the wall clock is ahead of the boot clock. The parameters
-- of a "repair" are ?1 the number, ?2 the text, ?3 now, ?4 the moment of leases; it checks the
-- condition again, since time has passed. No repair deletes a task.
--
-- Functions: quern_any_worker() and quern_queue_served(name), by living workers as they were when
-- the check began; quern_name_sound(name), quern_headers_whole(headers); see rule.c;
-- quern_entry_whole(name, task), quern_entry_due(cron, zone, with_seconds, last_s, now); see
-- entries.c.

-- --- The file --------------------------------------------------------------------------------

-- name: check_integrity
PRAGMA quick_check(100);

-- name: find_wrong_version
SELECT '', '', printf('quern_meta has schema %s, this library has %d',
    coalesce((SELECT schema_version FROM quern_meta WHERE one = 1), 'nothing'), ?3), 0, NULL
WHERE (SELECT count(*) FROM quern_meta WHERE schema_version = ?3) <> 1;

-- The counter hands out places and tokens; behind one of them it would give it a second time. What
-- lies beyond 2^62 was planted, not counted: such numbers of tasks are left out, as no number would
-- be left behind them, and the counter itself goes back. A place is that number less 2^48 for each
-- step of its priority.
-- name: find_wrong_counter
SELECT '', '', printf('the counter is %d, but %d was given last', m.counter, n.last), n.last, NULL
FROM quern_meta AS m, (
    SELECT max(coalesce((SELECT max(max(seq * (seq <= 4611686018427387904),
                                        iif(place >> 48 BETWEEN -100 AND 100,
                                            place & (1 << 48) - 1, place * (place <= 1 << 62)),
                                        token * (token <= 4611686018427387904)))
                         FROM quern_task), 0),
               coalesce((SELECT max(no) FROM quern_worker WHERE no <= 4611686018427387904), 0),
               coalesce((SELECT max(revision) FROM quern_entry
                         WHERE revision <= 4611686018427387904), 0),
               coalesce((SELECT max(seq) FROM quern_tick WHERE seq <= 4611686018427387904), 0))
        AS last) AS n
WHERE m.counter < n.last OR m.counter > 4611686018427387904;

-- name: repair_wrong_counter
UPDATE quern_meta SET counter = ?1 WHERE counter < ?1 OR counter > 4611686018427387904;

-- --- Queues and their counters ---------------------------------------------------------------

-- name: find_missing_queue
SELECT 'recovered-' || abs(queue), '',
    printf('%d %s to queue number %d, which is missing', count(*),
        iif(count(*) = 1, 'task belongs', 'tasks belong'), abs(queue)), abs(queue), NULL
FROM quern_task
WHERE queue NOT IN (SELECT no FROM quern_queue UNION ALL SELECT -no FROM quern_queue)
    AND queue > -1 << 62
GROUP BY abs(queue);

-- name: repair_missing_queue
INSERT INTO quern_queue (no, name, terms, processed, failed)
SELECT ?1,
    'recovered-' || ?1 || iif(EXISTS (SELECT 1 FROM quern_queue WHERE name = 'recovered-' || ?1),
        '-' || lower(hex(randomblob(4))), ''), 1,
    (SELECT coalesce(sum(max(processed, failed, 0)), 0) FROM quern_day WHERE queue = ?1),
    (SELECT coalesce(sum(max(failed, 0)), 0) FROM quern_day WHERE queue = ?1)
WHERE true
ON CONFLICT (no) DO NOTHING;

-- name: find_stray_day
SELECT '', '', printf('%d %s counted for queue number %d, which is missing', count(*),
        iif(count(*) = 1, 'day is', 'days are'), queue), queue, NULL
FROM quern_day WHERE queue NOT IN (SELECT no FROM quern_queue) GROUP BY queue;

-- name: repair_stray_day
DELETE FROM quern_day WHERE queue = ?1 AND queue NOT IN (SELECT no FROM quern_queue);

-- name: find_wrong_day
SELECT coalesce(q.name, ''), '',
    printf('on day %s %d failed of %d processed', date(d.day * 86400, 'unixepoch'), d.failed,
        d.processed),
    d.queue, d.day
FROM quern_day AS d LEFT JOIN quern_queue AS q ON q.no = d.queue
WHERE d.failed > d.processed OR d.failed < 0;

-- name: repair_wrong_day
UPDATE quern_day SET failed = max(failed, 0), processed = max(processed, failed, 0)
WHERE queue = ?1 AND day = CAST(?2 AS INTEGER) AND (failed > processed OR failed < 0);

-- name: find_wrong_total
SELECT q.name, '',
    printf('%d failed of %d processed in all; the days sum to %d of %d', q.failed, q.processed,
        coalesce(d.failed, 0), coalesce(d.processed, 0)),
    q.no, NULL
FROM quern_queue AS q LEFT JOIN (
    SELECT queue, sum(processed) AS processed, sum(failed) AS failed FROM quern_day GROUP BY queue
    ) AS d ON d.queue = q.no
WHERE q.failed > q.processed OR q.failed < 0 OR q.processed < coalesce(d.processed, 0)
    OR q.failed < coalesce(d.failed, 0);

-- name: repair_wrong_total
UPDATE quern_queue SET
    failed = max(failed, 0,
        (SELECT coalesce(sum(failed), 0) FROM quern_day WHERE queue = ?1)),
    processed = max(processed, failed, 0,
        (SELECT coalesce(sum(max(processed, failed)), 0) FROM quern_day WHERE queue = ?1))
WHERE no = ?1;

-- What a queue notes of its limits, as in queue/meter.h; a lease observes no others.
-- name: find_wrong_limits
SELECT name, '', printf('the kinds of its limits are noted as %d, not as %d', limits, kinds), no,
    NULL
FROM (SELECT q.no, q.name, q.limits, coalesce((SELECT sum(bit) FROM (
        SELECT DISTINCT iif(l.scope = 4, 4096,
            1 << ((l.scope - 1) * 2 + l.rate + iif(l.queue = 0, 6, 0))) AS bit
        FROM quern_limit AS l
        WHERE l.queue IN (0, q.no) AND l.scope BETWEEN 1 AND 4 AND l.rate IN (0, 1)
            AND (l.scope < 4 OR l.queue > 0 AND l.rate = 0))), 0) AS kinds
    FROM quern_queue AS q)
WHERE limits <> kinds;

-- --- Tasks -----------------------------------------------------------------------------------

-- name: find_wrong_state
SELECT coalesce(q.name, ''), t.id, printf('its state is %d, which is none', t.state), t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state NOT BETWEEN 1 AND 7;

-- Into the archive, where an operator decides.
-- name: repair_wrong_state
UPDATE quern_task SET state = 5, at_ms = ?3, lease_until = 0, worker = 0, started = 0,
    started_at_ms = 0, cancel = 0,
    error = iif(error IS NULL, '', error || '; ') || 'its state was ' || state
WHERE seq = ?1 AND state NOT BETWEEN 1 AND 7;

-- name: find_wrong_name
SELECT coalesce(q.name, ''), t.id,
    iif(quern_name_sound(t.id), 'its type', 'its id') || ' is blank or not a name', t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE NOT quern_name_sound(t.type) OR NOT quern_name_sound(t.id);

-- name: find_damaged_headers
SELECT coalesce(q.name, ''), t.id, 'its headers cannot be read; it runs without them', t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.headers IS NOT NULL AND NOT quern_headers_whole(t.headers);

-- An active task without an owner: no worker would finish it, and it would not be recovered soon.
-- name: find_no_owner
SELECT coalesce(q.name, ''), t.id,
    CASE WHEN t.lease_until <= 0 THEN 'active without a lease'
        WHEN t.token <= 0 THEN 'active without a token'
        ELSE printf('active, but its worker number %d is missing', t.worker) END,
    t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state = 1 AND (t.lease_until <= 0 OR t.token <= 0
    OR (t.lease_until > ?2 AND t.worker NOT IN (SELECT no FROM quern_worker)));

-- To pending at its place, cause 8: the broker lost writes.
-- name: repair_no_owner
UPDATE quern_task SET state = 2, cause = 8, at_ms = 0,
    start_by_at_ms = iif(started, NULL, start_by_at_ms), lease_until = 0, worker = 0, started = 0,
    started_at_ms = 0, cancel = 0, progress = -1, progress_note = NULL
WHERE seq = ?1 AND state = 1 AND (lease_until <= 0 OR token <= 0
    OR (lease_until > ?4 AND worker NOT IN (SELECT no FROM quern_worker)));

-- name: find_same_token
SELECT coalesce(q.name, ''), t.id, printf('active with token %d, as another task is', t.token),
    t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state = 1 AND t.token > 0
    AND EXISTS (SELECT 1 FROM quern_task AS o
        WHERE o.state = 1 AND o.token = t.token AND o.seq < t.seq);

-- name: repair_same_token
UPDATE quern_task SET state = 2, cause = 8, at_ms = 0, token = 0,
    start_by_at_ms = iif(started, NULL, start_by_at_ms), lease_until = 0, worker = 0, started = 0,
    started_at_ms = 0, cancel = 0, progress = -1, progress_note = NULL
WHERE seq = ?1 AND state = 1
    AND EXISTS (SELECT 1 FROM quern_task AS o
        WHERE o.state = 1 AND o.token = quern_task.token AND o.seq < quern_task.seq);

-- name: find_idle_lease
SELECT coalesce(q.name, ''), t.id, 'not active, but with the marks of a run', t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state <> 1 AND (t.lease_until <> 0 OR t.worker <> 0 AND t.state <> 7 OR t.started <> 0
    OR t.cancel <> 0);

-- name: repair_idle_lease
UPDATE quern_task SET lease_until = 0, worker = iif(state = 7, worker, 0), started = 0,
    started_at_ms = 0, cancel = 0
WHERE seq = ?1 AND state <> 1;

-- name: find_no_group
SELECT coalesce(q.name, ''), t.id, 'aggregating, but in no group', t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state >= 5 AND t.state = 7 AND coalesce(t.grp, '') = '';

-- name: repair_no_group
UPDATE quern_task SET state = 2, cause = 8, at_ms = 0, worker = 0
WHERE seq = ?1 AND state = 7 AND coalesce(grp, '') = '';

-- As sort.sql gives them; until that is done (quern_queue.sort) some have none yet.
-- name: find_wrong_lane
SELECT q.name, t.id, 'without its lane, so that no lease finds it', t.seq, NULL
FROM quern_queue AS q CROSS JOIN quern_task AS t
WHERE q.lanes <> 0 AND q.sort = 0 AND t.queue = q.no
    AND t.lane IS NOT (coalesce(substr(t.lane, 1, instr(t.lane, char(31)) - 1), '') || char(31) ||
        iif(q.lanes = 2, t.type, ''));

-- name: repair_wrong_lane
UPDATE quern_task SET lane = coalesce(substr(lane, 1, instr(lane, char(31)) - 1), '') ||
    char(31) || iif(q.lanes = 2, type, '')
FROM quern_queue AS q
WHERE quern_task.seq = ?1 AND q.no = quern_task.queue AND q.lanes <> 0 AND q.sort = 0;

-- name: find_no_set
SELECT coalesce(q.name, ''), t.id, 'in a set that does not exist', t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state >= 5 AND t.state = 7 AND t.worker <> 0
    AND NOT EXISTS (SELECT 1 FROM quern_set AS s WHERE s.no = t.worker AND s.queue = t.queue);

-- name: repair_no_set
UPDATE quern_task SET worker = 0 WHERE seq = ?1 AND state = 7 AND NOT EXISTS (
    SELECT 1 FROM quern_set AS s WHERE s.no = quern_task.worker AND s.queue = quern_task.queue);

-- name: find_empty_set
SELECT coalesce(q.name, ''), '', printf('the set %d of the group %s has no members', s.no, s.grp),
    s.no, NULL
FROM quern_set AS s LEFT JOIN quern_queue AS q ON q.no = s.queue
WHERE NOT EXISTS (
    SELECT 1 FROM quern_task AS t WHERE t.worker = s.no AND t.state = 7 AND t.worker > 0);

-- name: repair_empty_set
DELETE FROM quern_set WHERE no = ?1
    AND NOT EXISTS (
        SELECT 1 FROM quern_task AS t WHERE t.worker = ?1 AND t.state = 7 AND t.worker > 0);

-- Moments may lie ahead: then the clock was set back meanwhile. By a year it never is.
-- name: find_wrong_counts
SELECT coalesce(q.name, ''), t.id,
    printf('%d %s of %d, %d %s, %d of them alone, after %d ms', t.retry_count,
        iif(t.retry_count = 1, 'retry', 'retries'), t.retry_max, t.crash_count,
        iif(t.crash_count = 1, 'death', 'deaths'), t.lone, t.life_ms),
    t.seq, NULL
FROM quern_task AS t LEFT JOIN quern_queue AS q ON q.no = t.queue
WHERE t.retry_count > t.retry_max OR t.retry_count < 0 OR t.retry_max < 0
    OR t.crash_count NOT BETWEEN 0 AND ?5 OR t.lone NOT BETWEEN 0 AND t.crash_count
    OR (t.crash_count > 0 AND coalesce(t.level, -1) NOT BETWEEN 0 AND min(t.crash_count, 4))
    OR t.life_ms NOT BETWEEN 0 AND ?5 OR t.crashed_at_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000
    OR t.died_at_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000;

-- name: repair_wrong_counts
UPDATE quern_task SET retry_max = max(retry_max, 0),
    retry_count = min(max(retry_count, 0), max(retry_max, 0)),
    crash_count = min(max(crash_count, 0), 1000000),
    lone = min(max(lone, 0), min(max(crash_count, 0), 1000000)),
    level = iif(crash_count > 0,
        min(max(coalesce(level, crash_count), 0), min(crash_count, 4)), NULL),
    life_ms = iif(life_ms BETWEEN 0 AND 1000000000000, life_ms, 0),
    crashed_at_ms = iif(crashed_at_ms BETWEEN 0 AND ?3, crashed_at_ms, 0),
    died_at_ms = iif(died_at_ms BETWEEN 0 AND ?3, died_at_ms, 0)
WHERE seq = ?1;

-- --- Deaths ----------------------------------------------------------------------------------

-- name: find_wrong_brake
SELECT coalesce(q.name, ''), '',
    printf('its brake on host %s counts %d %s and %d %s, the next in %d ms', h.host,
        h.streak, iif(h.streak = 1, 'death', 'deaths'), h.probes,
        iif(h.probes = 1, 'probe', 'probes'), h.probe_at_ms - ?1),
    h.queue, h.host
FROM quern_host AS h LEFT JOIN quern_queue AS q ON q.no = h.queue
WHERE q.no IS NULL OR h.streak NOT BETWEEN 0 AND ?5 OR h.probes NOT BETWEEN 0 AND ?5
    OR h.ok_at_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000
    OR h.probe_at_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000
    OR h.written_at_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000;

-- The queue starts over there.
-- name: repair_wrong_brake
DELETE FROM quern_host WHERE queue = ?1 AND host = ?2;

-- name: find_wrong_solo
SELECT name, '', printf('its solo lock is held for %d ms more, and it rests for %d ms after it',
    solo_until_ms - ?1, solo_rest_ms - ?1), no, NULL
FROM quern_queue
WHERE solo_since_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000
    OR solo_until_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000
    OR solo_rest_ms NOT BETWEEN 0 AND ?1 + 365 * 86400000;

-- name: repair_wrong_solo
UPDATE quern_queue SET solo_owner = '', solo_since_ms = 0, solo_until_ms = 0, solo_rest_ms = 0
WHERE no = ?1;

-- --- Locks -----------------------------------------------------------------------------------

-- name: find_stray_lock
SELECT coalesce(q.name, ''), l.id,
    'the lock ' || l.key || CASE WHEN t.seq IS NULL THEN ' names a task that does not exist'
        WHEN t.state = 6 THEN ' names a completed task'
        ELSE ' names a task that has another key' END,
    0, l.key
FROM quern_lock AS l LEFT JOIN quern_task AS t ON t.queue = l.queue AND t.id = l.id
    LEFT JOIN quern_queue AS q ON q.no = l.queue
WHERE l.fixed = 0 AND (t.seq IS NULL OR t.state = 6 OR t.unique_key IS NOT l.key);

-- name: repair_stray_lock
DELETE FROM quern_lock WHERE key = ?2 AND fixed = 0 AND NOT EXISTS (
    SELECT 1 FROM quern_task AS t WHERE t.queue = quern_lock.queue AND t.id = quern_lock.id
        AND t.state <> 6 AND t.unique_key = quern_lock.key);

-- A minute of grace for the keepers, which remove them.
-- name: find_past_lock
SELECT coalesce(q.name, ''), l.id,
    printf('the lock %s expired %d s ago', l.key, (?1 - l.until_ms) / 1000), 0, l.key
FROM quern_lock AS l LEFT JOIN quern_queue AS q ON q.no = l.queue
WHERE l.until_ms < ?1 - 60000
    AND quern_any_worker();

-- name: repair_past_lock
DELETE FROM quern_lock WHERE key = ?2 AND until_ms < ?3;

-- --- Upkeep, where a worker lives that should do it --------------------------------------------

-- name: find_lapsed
SELECT q.name, '', printf('%d %s not recovered', count(*),
    iif(count(*) = 1, 'lease has expired, and its task is',
        'leases have expired, and their tasks are')), 0, NULL
FROM quern_task AS t JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state = 1 AND t.lease_until > 0 AND t.lease_until <= ?2 - 2000
    AND quern_queue_served(q.name)
GROUP BY t.queue;

-- name: find_lapsed_set
SELECT q.name, '', printf('%d %s not back in their groups', count(*),
    iif(count(*) = 1, 'aggregation set has expired, and its tasks are',
        'aggregation sets have expired, and their tasks are')), 0, NULL
FROM quern_set AS s JOIN quern_queue AS q ON q.no = s.queue
WHERE s.lease_until <= ?2 - 300000 AND quern_queue_served(q.name)
GROUP BY s.queue;

-- name: find_overdue
SELECT q.name, '',
    printf('%d %s due and not pending', n.count, iif(n.count = 1, 'task is', 'tasks are')), 0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, count(*) AS count FROM quern_task
    WHERE state IN (3, 4) AND at_ms <= ?1 - 2000 GROUP BY queue) AS n ON n.queue = q.no
WHERE quern_queue_served(q.name);

-- ?6: how far the wall clock is ahead of the boot clock, 0: not known. A minute is nothing to worry
-- about; the next forward or recover puts it right.
-- name: find_misdated
SELECT q.name, '',
    printf('%d delayed %s for the wall clock as it was before it was set by %d s', n.count,
        iif(n.count = 1, 'task waits', 'tasks wait'), n.off / 1000), 0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, count(*) AS count, max(abs(at_ms - due_boot_ms - ?6)) AS off FROM quern_task
    WHERE state IN (3, 4) AND due_boot_ms > 0 AND ?6 <> 0
        AND abs(at_ms - due_boot_ms - ?6) > 60000 GROUP BY queue) AS n ON n.queue = q.no;

-- Stored by an older quern, or before a reboot, while the wall clock was ahead.
-- name: find_failed_later
SELECT q.name, t.id,
    printf('its failure is dated %d s ahead of the clock, and its retry waits so much too long',
        (t.failed_at_ms - ?1) / 1000), t.seq, NULL
FROM quern_task AS t JOIN quern_queue AS q ON q.no = t.queue
WHERE t.state IN (3, 4) AND t.state = 4 AND t.due_boot_ms = 0 AND t.failed_at_ms > ?1 + 60000;

-- name: repair_failed_later
UPDATE quern_task SET at_ms = max(?3, at_ms - failed_at_ms + ?3), failed_at_ms = ?3
WHERE seq = ?1 AND state = 4 AND due_boot_ms = 0 AND failed_at_ms > ?3 + 60000;

-- name: find_overkept
SELECT q.name, '', printf('%d completed %s retention', n.count,
    iif(n.count = 1, 'task is past its', 'tasks are past their')), 0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, count(*) AS count FROM quern_task
    WHERE state >= 5 AND state = 6 AND at_ms <= ?1 - 60000 GROUP BY queue) AS n ON n.queue = q.no
WHERE quern_queue_served(q.name);

-- name: find_full_archive
SELECT q.name, '', printf('the archive holds %d tasks, its limit is %d', n.count, ?4), 0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, count(*) AS count FROM quern_task
    WHERE state >= 5 AND state = 5 GROUP BY queue) AS n ON n.queue = q.no
WHERE n.count > ?4 AND quern_queue_served(q.name);

-- --- Schedules -------------------------------------------------------------------------------

-- name: find_stray_entry
SELECT 'recovered-' || queue, '',
    printf('%d %s to queue number %d, which is missing', count(*),
        iif(count(*) = 1, 'entry of a schedule belongs', 'entries of a schedule belong'), queue),
    queue, NULL
FROM quern_entry WHERE queue NOT IN (SELECT no FROM quern_queue) GROUP BY queue;

-- name: find_stray_tick
SELECT '', '', printf('%d %s in the history of queue number %d, which is missing', count(*),
        iif(count(*) = 1, 'tick is', 'ticks are'), queue), queue, NULL
FROM quern_tick WHERE queue NOT IN (SELECT no FROM quern_queue) GROUP BY queue;

-- name: repair_stray_tick
DELETE FROM quern_tick WHERE queue = ?1 AND queue NOT IN (SELECT no FROM quern_queue);

-- name: find_damaged_entry
SELECT q.name, '', printf('entry %s: its definition cannot be read; remove it, or add it again',
    e.name), 0, NULL
FROM quern_entry AS e JOIN quern_queue AS q ON q.no = e.queue
WHERE NOT quern_entry_whole(e.name, e.task);

-- name: find_entry_ahead
SELECT q.name, '', printf('entry %s: its last tick lies %d h ahead of the clock: no tick is '
    || 'enqueued until then; resume it from now', e.name, e.last_s / 3600 - ?1 / 3600000), 0, NULL
FROM quern_entry AS e JOIN quern_queue AS q ON q.no = e.queue
WHERE e.last_s / 3600 - ?1 / 3600000 > 24;

-- ?2 is on the clock of the lease.
-- name: find_no_leader
SELECT q.name, '', printf('%d %s due, and no scheduler runs', n.count,
    iif(n.count = 1, 'entry of the schedule is', 'entries of the schedule are')), 0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, count(*) AS count FROM quern_entry
    WHERE paused_at_ms = 0
        AND quern_entry_due(cron, zone, with_seconds, last_s, ?1)
    GROUP BY queue) AS n ON n.queue = q.no
WHERE NOT EXISTS (SELECT 1 FROM quern_leader WHERE id <> '' AND lease_until > ?2);

-- --- Notes -------------------------------------------------------------------------------------

-- name: find_unserved
SELECT q.name, '', printf('%d %s pending, and no worker serves the queue', n.count,
    iif(n.count = 1, 'task is', 'tasks are')), 0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, sum(count) AS count FROM (
        SELECT queue, count(*) AS count FROM quern_task
        WHERE state = 2 AND crash_count = 0 GROUP BY queue
        UNION ALL
        SELECT queue, count(*) FROM quern_task
        WHERE state = 2 AND crash_count > 0 GROUP BY queue) GROUP BY queue) AS n ON n.queue = q.no
WHERE NOT quern_queue_served(q.name);

-- name: find_no_aggregator
SELECT q.name, '', printf('%d %s by hand', n.count,
    iif(n.count = 1,
        'task is aggregating; only a worker with an aggregator takes it; or run it',
        'tasks are aggregating; only a worker with an aggregator takes them; or run them')),
    0, NULL
FROM quern_queue AS q JOIN (
    SELECT queue, count(*) AS count FROM quern_task
    WHERE state >= 5 AND state = 7 GROUP BY queue) AS n ON n.queue = q.no;

-- name: find_other_tables
SELECT '', '', printf('the file also holds %d %s left alone', count(*),
    iif(count(*) = 1, 'table of others; it is', 'tables of others; they are')), 0,
    NULL
FROM sqlite_master
WHERE type = 'table' AND substr(name, 1, 6) <> 'quern_' AND substr(name, 1, 7) <> 'sqlite_'
HAVING count(*) > 0;
