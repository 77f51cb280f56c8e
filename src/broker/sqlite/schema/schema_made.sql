-- schema_made.sql - the tables as all migrations of schema.sql leave them.
--
-- A file is compared with them when it is opened: making these takes a fifth of the time of the
-- migrations. Whether they are right is seen whenever a file is opened for the second time.

-- name: schema_made
CREATE TABLE quern_meta (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    schema_version  INTEGER NOT NULL,
    counter         INTEGER NOT NULL CHECK (counter >= 0),
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
    crash_streak INTEGER NOT NULL DEFAULT 0,
    streak_id    TEXT NOT NULL DEFAULT '',
    solo_owner   TEXT NOT NULL DEFAULT '',
    solo_since_ms INTEGER NOT NULL DEFAULT 0,
    solo_until_ms INTEGER NOT NULL DEFAULT 0,
    solo_rest_ms INTEGER NOT NULL DEFAULT 0,
    max_pending  INTEGER NOT NULL DEFAULT 0,
    limits       INTEGER NOT NULL DEFAULT 0,
    lanes        INTEGER NOT NULL DEFAULT 0,
    lane_key     TEXT NOT NULL DEFAULT '',
    sort         INTEGER NOT NULL DEFAULT 0,
    sort_place   INTEGER NOT NULL DEFAULT 0,
    sort_id      TEXT NOT NULL DEFAULT '',
    terms        INTEGER NOT NULL DEFAULT 0,
    trash_count  INTEGER NOT NULL DEFAULT 0,
    trash_bytes  INTEGER NOT NULL DEFAULT 0
) STRICT;
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
    headers         BLOB,
    error           TEXT,
    result          BLOB,
    payload         BLOB,
    lone            INTEGER NOT NULL DEFAULT 0,
    life_ms         INTEGER NOT NULL DEFAULT 0,
    died_at_ms      INTEGER NOT NULL DEFAULT 0,
    due_boot_ms     INTEGER NOT NULL DEFAULT 0,
    start_by_at_ms  INTEGER,
    unique_terms    INTEGER,
    lane            TEXT,
    level           INTEGER,
    run_limits      TEXT,
    runs            TEXT,
    CHECK ((state = 1) = (lease_until > 0)),
    CHECK (retry_count <= retry_max),
    CHECK (state <> 7 OR grp IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX quern_task_id ON quern_task (queue, id);
CREATE INDEX quern_task_pending ON quern_task (queue, place) WHERE state = 2 AND crash_count = 0;
CREATE INDEX quern_task_charged ON quern_task (queue, level, place, died_at_ms)
    WHERE state = 2 AND crash_count > 0;
CREATE INDEX quern_task_lease ON quern_task (lease_until, queue, worker) WHERE state = 1;
CREATE INDEX quern_task_due ON quern_task (queue, at_ms, state, due_boot_ms) WHERE state IN (3, 4);

-- name: schema_made_rest
CREATE INDEX quern_task_rest ON quern_task (queue, state, at_ms) WHERE state >= 5;
CREATE TABLE quern_set (
    no              INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    grp             TEXT NOT NULL,
    worker          INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL
) STRICT;
CREATE INDEX quern_set_queue ON quern_set (queue, lease_until);
CREATE TABLE quern_lock (
    key             TEXT PRIMARY KEY,
    queue           INTEGER NOT NULL,
    id              TEXT NOT NULL,
    until_ms        INTEGER NOT NULL,
    fixed           INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX quern_lock_until ON quern_lock (until_ms);
CREATE TABLE quern_day (
    queue           INTEGER NOT NULL,
    day             INTEGER NOT NULL,
    processed       INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, day)
) STRICT, WITHOUT ROWID;
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
    heartbeat_at_ms INTEGER NOT NULL,
    died_with       INTEGER NOT NULL DEFAULT -1
) STRICT;
CREATE TABLE quern_session (
    id              INTEGER PRIMARY KEY,
    sequence        INTEGER NOT NULL,
    reply           BLOB,
    at_ms           INTEGER NOT NULL
) STRICT;
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
CREATE TABLE quern_leader (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    epoch           INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    owner           TEXT NOT NULL,
    id              TEXT NOT NULL,
    lease_until     INTEGER NOT NULL,
    until_ms        INTEGER NOT NULL
) STRICT;

-- name: schema_made_limits
CREATE TABLE quern_limit (
    queue INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL, rate INTEGER NOT NULL,
    count INTEGER NOT NULL, period_ms INTEGER NOT NULL, burst INTEGER NOT NULL,
    PRIMARY KEY (queue, scope, name, rate)
) STRICT, WITHOUT ROWID;
CREATE TABLE quern_limit_use (
    queue INTEGER NOT NULL, scope INTEGER NOT NULL, name TEXT NOT NULL,
    period_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL, debt INTEGER NOT NULL,
    paid_at_ms INTEGER NOT NULL, slots BLOB, clear_at_ms INTEGER NOT NULL,
    PRIMARY KEY (queue, scope, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX quern_limit_use_clear ON quern_limit_use (clear_at_ms);
CREATE TABLE quern_trash (
    seq             INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    until_ms        INTEGER NOT NULL,
    size            INTEGER NOT NULL,
    lock_until_ms   INTEGER NOT NULL
) STRICT;
CREATE INDEX quern_trash_queue ON quern_trash (queue, until_ms);
CREATE INDEX quern_trash_until ON quern_trash (until_ms);
