-- schema.sql - the tables of quern in an SQLite file, and their invariants.
--
-- Everything is named quern_*, so that the tables can live beside a program's own; user_version and
-- application_id belong to that program. The version of the schema is a row of quern_meta; a change
-- is a new migration at the end, never an edit of an old one.
--
-- If you change a table: schema_made.sql, late.sql, the statements in the .sql
-- files beside this one, docs/protocol/sqlite.md.

-- name: schema_1

-- One row: the version, and the counter that tokens, fences and places in the queues come from. It
-- only grows, so a token is never given twice, also not for a task with the same id later.
CREATE TABLE quern_meta (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    schema_version  INTEGER NOT NULL,
    counter         INTEGER NOT NULL CHECK (counter >= 0),
    -- The boot of the kernel that the leases were measured with; after another boot they are void.
    boot_id         TEXT NOT NULL,
    created_at_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE quern_queue (
    no           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    paused_at_ms INTEGER NOT NULL DEFAULT 0,
    processed    INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0 CHECK (failed <= processed),
    trimmed      INTEGER NOT NULL DEFAULT 0,
    -- Crashes of different tasks in a row; a broken deploy shows here. streak_id: the last one.
    crash_streak INTEGER NOT NULL DEFAULT 0,
    streak_id    TEXT NOT NULL DEFAULT ''
) STRICT;

-- state: 1 active, 2 pending, 3 scheduled, 4 retry, 5 archived, 6 completed, 7 aggregating.
-- place: the order in pending. A new or due task gets the next of the counter (the tail); a task
-- that is given back keeps its place, and so stands before all that came later (the head).
-- at_ms: when it is due (3, 4), was archived (5), is to be removed (6), was added (7); wall clock.
-- lease_until: boot clock in ms; token: of the last lease, kept after recovery for the salvage.
CREATE TABLE quern_task (
    seq             INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    id              TEXT NOT NULL,
    state           INTEGER NOT NULL CHECK (state BETWEEN 1 AND 7),
    place           INTEGER NOT NULL,
    at_ms           INTEGER NOT NULL DEFAULT 0,
    token           INTEGER NOT NULL DEFAULT 0,
    lease_until     INTEGER NOT NULL DEFAULT 0,
    worker          INTEGER NOT NULL DEFAULT 0,
    started         INTEGER NOT NULL DEFAULT 0 CHECK (started IN (0, 1)),
    started_at_ms   INTEGER NOT NULL DEFAULT 0,
    cancel          INTEGER NOT NULL DEFAULT 0 CHECK (cancel BETWEEN 0 AND 2),
    cause           INTEGER NOT NULL DEFAULT 0,
    retry_count     INTEGER NOT NULL DEFAULT 0,
    retry_max       INTEGER NOT NULL CHECK (retry_max >= 0),
    crash_count     INTEGER NOT NULL DEFAULT 0,
    crashed_at_ms   INTEGER NOT NULL DEFAULT 0,
    timeout_ms      INTEGER NOT NULL,
    deadline_at_ms  INTEGER NOT NULL DEFAULT 0,
    retention_ms    INTEGER NOT NULL DEFAULT 0,
    enqueued_at_ms  INTEGER NOT NULL,
    due_at_ms       INTEGER NOT NULL DEFAULT 0,
    failed_at_ms    INTEGER NOT NULL DEFAULT 0,
    completed_at_ms INTEGER NOT NULL DEFAULT 0,
    retry_kind      INTEGER NOT NULL DEFAULT 0,
    retry_base_ms   INTEGER NOT NULL DEFAULT 0,
    retry_cap_ms    INTEGER NOT NULL DEFAULT 0,
    progress        INTEGER NOT NULL DEFAULT -1,
    type            TEXT NOT NULL,
    progress_note   TEXT,
    unique_key      TEXT,
    grp             TEXT,
    -- name NUL value NUL, and so on.
    headers         BLOB,
    error           TEXT,
    -- The large ones last, so that a look at the others need not follow their overflow pages.
    result          BLOB,
    payload         BLOB,
    CHECK ((state = 1) = (lease_until > 0)),
    CHECK (retry_count <= retry_max),
    CHECK (state <> 7 OR grp IS NOT NULL)
) STRICT;

-- Ids are unique in their queue, in every state, as in asynq. UUIDv7 ids keep this index dense.
CREATE UNIQUE INDEX quern_task_id ON quern_task (queue, id);
-- Pending tasks in their order; those with a crash on record apart, since a worker takes at most
-- one.
CREATE INDEX quern_task_pending ON quern_task (queue, place) WHERE state = 2 AND crash_count = 0;
CREATE INDEX quern_task_suspect ON quern_task (queue, place) WHERE state = 2 AND crash_count > 0;
CREATE INDEX quern_task_lease ON quern_task (lease_until, queue, worker) WHERE state = 1;
-- What is due next. So every state stands in exactly one of these indexes, in its order; a query
-- must repeat the WHERE of the index word for word, or it is not used.
CREATE INDEX quern_task_due ON quern_task (queue, at_ms, state) WHERE state IN (3, 4);
CREATE INDEX quern_task_rest ON quern_task (queue, state, at_ms) WHERE state >= 5;

-- Uniqueness locks, as asynq's: they have a life of their own and may outlive the state of the
-- task.
CREATE TABLE quern_lock (
    key             TEXT PRIMARY KEY,
    queue           INTEGER NOT NULL,
    id              TEXT NOT NULL,
    until_ms        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX quern_lock_until ON quern_lock (until_ms);

CREATE TABLE quern_day (
    queue           INTEGER NOT NULL,
    day             INTEGER NOT NULL,      -- days since 1970-01-01, UTC
    processed       INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, day)
) STRICT, WITHOUT ROWID;

-- no: from the counter, so that a lease never seems to belong to a later worker.
CREATE TABLE quern_worker (
    no              INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    owner           TEXT NOT NULL,
    host            TEXT NOT NULL,
    pid             INTEGER NOT NULL,
    status          TEXT NOT NULL,
    queues          TEXT NOT NULL,
    concurrency     INTEGER NOT NULL,
    strict          INTEGER NOT NULL,
    started_at_ms   INTEGER NOT NULL,
    heartbeat_at_ms INTEGER NOT NULL
) STRICT;

-- The last request of each session that took effect, and what it answered.
CREATE TABLE quern_session (
    id              INTEGER PRIMARY KEY,
    sequence        INTEGER NOT NULL,
    reply           BLOB,
    at_ms           INTEGER NOT NULL
) STRICT;

-- name: schema_2

-- What is known of the deaths of processes (src/task/deaths.h). Of a task: crash_count are its
-- charges, crashed_at_ms is when the first charged run started. All moments are wall clock. Columns
-- are neither renamed nor dropped, since SQLite refuses that beside a broken view of another
-- program: crash_streak and streak_id of quern_queue are not used any more.
ALTER TABLE quern_task ADD COLUMN lone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_task ADD COLUMN life_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_task ADD COLUMN died_at_ms INTEGER NOT NULL DEFAULT 0;

-- Pending tasks that are charged, by how much company they may have (4: QN_ALONE_CHARGES), so that
-- those for which there is no room are not walked through. With died_at_ms no row need be read to
-- find the one that died longest ago.
DROP INDEX IF EXISTS quern_task_suspect;
CREATE INDEX quern_task_charged ON quern_task (queue, min(crash_count, 4), place, died_at_ms)
    WHERE state = 2 AND crash_count > 0;

-- The solo lock: the worker that may run a task alone (its id, not its number: it may be announced
-- anew), since and until when, and until when the queue rests after that.
ALTER TABLE quern_queue ADD COLUMN solo_owner TEXT NOT NULL DEFAULT '';
ALTER TABLE quern_queue ADD COLUMN solo_since_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN solo_until_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN solo_rest_ms INTEGER NOT NULL DEFAULT 0;

-- The brake of a queue on a host (struct qn_brake). written_at_ms: after 72 h it is forgotten.
CREATE TABLE quern_host (
    queue           INTEGER NOT NULL,
    host            TEXT NOT NULL,
    ok_at_ms        INTEGER NOT NULL,
    streak          INTEGER NOT NULL,
    probes          INTEGER NOT NULL,
    probe_at_ms     INTEGER NOT NULL,
    probe_token     INTEGER NOT NULL,
    written_at_ms   INTEGER NOT NULL,
    PRIMARY KEY (queue, host)
) STRICT, WITHOUT ROWID;

-- How many runs it had started when its death was noted, which is done once; -1: it is alive.
ALTER TABLE quern_worker ADD COLUMN died_with INTEGER NOT NULL DEFAULT -1;

-- name: schema_3

-- A delay (state 3 or 4) has its end on the boot clock, too, in ms; 0: at_ms was given as a moment,
-- or that boot is over. See upkeep/redate.c.
ALTER TABLE quern_task ADD COLUMN due_boot_ms INTEGER NOT NULL DEFAULT 0;
-- With the end on the boot clock, so that what is dated wrongly is found without reading rows.
DROP INDEX IF EXISTS quern_task_due;
CREATE INDEX quern_task_due ON quern_task (queue, at_ms, state, due_boot_ms) WHERE state IN (3, 4);

-- name: schema_4

-- Each change of a task copies all of its columns, so what few tasks have gets as few of them as
-- possible, and NULL where it is not used; indexes for them are in late.sql. place: 2^48 less for
-- each step of the priority, which is kept nowhere else. worker: of a task that is being aggregated
-- its set (quern_set.no). unique_terms: 8 times how long the lock is to live when it is renewed, in
-- ms, plus a quern_unique_until.
ALTER TABLE quern_task ADD COLUMN start_by_at_ms INTEGER;
ALTER TABLE quern_task ADD COLUMN unique_terms INTEGER;
-- 1: the lock holds until until_ms, whatever becomes of its task.
ALTER TABLE quern_lock ADD COLUMN fixed INTEGER NOT NULL DEFAULT 0;

-- How many tasks of the queue may be pending or scheduled when one is enqueued; 0: no limit.
ALTER TABLE quern_queue ADD COLUMN max_pending INTEGER NOT NULL DEFAULT 0;

-- Entries of schedules (src/broker/schedule/schedule.h). revision: of the counter, new with each
-- change. last_s: the last tick that is done with; advanced in the transaction that enqueues its
-- task. task: template.h.
CREATE TABLE quern_entry (
    queue           INTEGER NOT NULL,
    name            TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    origin          TEXT NOT NULL,
    cron            TEXT NOT NULL,
    zone            TEXT NOT NULL,
    with_seconds    INTEGER NOT NULL CHECK (with_seconds IN (0, 1)),
    misfire         INTEGER NOT NULL CHECK (misfire BETWEEN 1 AND 3),
    misfire_max     INTEGER NOT NULL CHECK (misfire_max BETWEEN 1 AND 1000),
    late_ms         INTEGER NOT NULL CHECK (late_ms >= 0),
    jitter_ms       INTEGER NOT NULL CHECK (jitter_ms >= 0),
    created_at_ms   INTEGER NOT NULL,
    paused_at_ms    INTEGER NOT NULL DEFAULT 0,
    last_s          INTEGER NOT NULL,
    runs            INTEGER NOT NULL DEFAULT 0,
    task            BLOB NOT NULL,
    PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

-- What became of the ticks, the latest 1 000 of each entry. seq: of the counter; what: a
-- qn_tick_what; id: of the task, NULL: none was stored.
CREATE TABLE quern_tick (
    queue           INTEGER NOT NULL,
    name            TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    tick_s          INTEGER NOT NULL,
    at_ms           INTEGER NOT NULL,
    what            INTEGER NOT NULL,
    skipped         INTEGER NOT NULL,
    id              TEXT,
    PRIMARY KEY (queue, name, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX quern_tick_at ON quern_tick (at_ms);

-- One row, once there was an entry or a scheduler. version: of the counter, new when an entry
-- changes. The lease of the leader is kept on the boot clock; until_ms, its end on the wall clock,
-- is for an owner of another boot.
CREATE TABLE quern_leader (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    epoch           INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    owner           TEXT NOT NULL,
    id              TEXT NOT NULL,
    lease_until     INTEGER NOT NULL,
    until_ms        INTEGER NOT NULL
) STRICT;
-- Limits (src/task/limit.h). scope: 1 the queue, 2 a type, 3 a key ('*': each without its own), 4 a
-- semaphore, which other queues may have, too. rate: 0 it counts runs, 1 starts.
CREATE TABLE quern_limit (
    queue INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL, rate INTEGER NOT NULL,
    count INTEGER NOT NULL, period_ms INTEGER NOT NULL, burst INTEGER NOT NULL,
    PRIMARY KEY (queue, scope, name, rate)
) STRICT, WITHOUT ROWID;
-- What is used of the rates (struct qn_limit_use), by the type or key itself. slots: 32 bits each,
-- low byte first; NULL: a bucket. clear_at_ms: then it is nothing.
CREATE TABLE quern_limit_use (
    queue INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL,
    period_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL, debt INTEGER NOT NULL,
    paid_at_ms INTEGER NOT NULL, slots BLOB, clear_at_ms INTEGER NOT NULL,
    PRIMARY KEY (queue, scope, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX quern_limit_use_clear ON quern_limit_use (clear_at_ms);
-- limits: which kinds there are, see queue/meter.h. lanes: 0 none, 1 the tasks have lanes by
-- key, 2 by key and type. lane_key: whose turn was last. sort: 0 all tasks have their lane, 1 the
-- pending ones get it, up to sort_place so far, 2 the others, up to sort_id (run/limits/sort.c).
ALTER TABLE quern_queue ADD COLUMN limits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN lanes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN lane_key TEXT NOT NULL DEFAULT '';
ALTER TABLE quern_queue ADD COLUMN sort INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN sort_place INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN sort_id TEXT NOT NULL DEFAULT '';
-- terms: 1 when some of its tasks have, or had, start_by_at_ms or unique_terms; a lease reads them
-- only then.
ALTER TABLE quern_queue ADD COLUMN terms INTEGER NOT NULL DEFAULT 0;
-- key, 0x1f, type; either may be empty. The key is the limit_key of the task. NULL: the queue has
-- no lanes.
ALTER TABLE quern_task ADD COLUMN lane TEXT;

-- Members of a group that are being aggregated together. no: from the counter, the token of the
-- lease. worker and lease_until: as of a task.
CREATE TABLE quern_set (
    no              INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    grp             TEXT NOT NULL,
    worker          INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL
) STRICT;
CREATE INDEX quern_set_queue ON quern_set (queue, lease_until);

-- name: schema_5

-- How much company a charged task may have (struct qn_deaths); NULL: it is not charged.
ALTER TABLE quern_task ADD COLUMN level INTEGER;
UPDATE quern_task SET level = min(crash_count, 4) WHERE crash_count > 0;
DROP INDEX IF EXISTS quern_task_charged;
CREATE INDEX quern_task_charged ON quern_task (queue, level, place, died_at_ms)
    WHERE state = 2 AND crash_count > 0;

-- Limits of one run: kill_after_ms, cpu_ms and memory_max, with spaces between; NULL: none.
-- quern_queue.terms is 1 for these, too.
ALTER TABLE quern_task ADD COLUMN run_limits TEXT;

-- name: schema_6

-- The trash: a deleted task stays in its row for a day, in the queue of the negative number (no of
-- quern_queue). So no statement finds it by its queue, and a restored task is what it was. This is
-- the list of them: until_ms, when its day is over; size, roughly its bytes; lock_until_ms, when
-- the lock that it held would have ended, 0: it held none.
CREATE TABLE quern_trash (
    seq             INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    until_ms        INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    lock_until_ms   INTEGER NOT NULL
) STRICT;
CREATE INDEX quern_trash_queue ON quern_trash (queue, until_ms);
CREATE INDEX quern_trash_until ON quern_trash (until_ms);
-- How much of the queue is there.
ALTER TABLE quern_queue ADD COLUMN trash_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE quern_queue ADD COLUMN trash_bytes INTEGER NOT NULL DEFAULT 0;

-- name: schema_7

-- Its last runs (src/task/past_runs.h); NULL: none is noted.
ALTER TABLE quern_task ADD COLUMN runs TEXT;
