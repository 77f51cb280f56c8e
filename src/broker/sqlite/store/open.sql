-- open.sql - settings of the connections, and the checks of opening.

-- name: writer_settings
PRAGMA cache_size = -2000;
PRAGMA mmap_size = 0;
PRAGMA temp_store = MEMORY;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;

-- name: reader_settings
PRAGMA cache_size = -500;
PRAGMA mmap_size = 0;
PRAGMA temp_store = MEMORY;
PRAGMA query_only = ON;

-- A connection that has never read takes no checkpoint: it does not know yet that there is a WAL.
-- name: checkpoint_settings
PRAGMA cache_size = -64;
PRAGMA mmap_size = 0;
PRAGMA wal_autocheckpoint = 0;
SELECT 1 FROM sqlite_master LIMIT 1;

-- name: sync_normal
PRAGMA synchronous = NORMAL;

-- name: sync_full
PRAGMA synchronous = FULL;

-- name: set_wal
PRAGMA journal_mode = WAL;

-- Ours, and those of others (SQLite's own do not count).
-- name: tables
SELECT count(*) FILTER (WHERE name = 'quern_meta'),
       count(*) FILTER (WHERE substr(name, 1, 7) <> 'sqlite_' AND substr(name, 1, 6) <> 'quern_')
FROM sqlite_master WHERE type = 'table';

-- Our objects, those on our tables, and views that read our tables. The names of triggers' tables
-- keep the case in which they were written.
-- name: our_objects
SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema
WHERE substr(lower(name), 1, 6) = 'quern_' OR substr(lower(tbl_name), 1, 6) = 'quern_'
    OR (type = 'view' AND instr(lower(sql), 'quern_') > 0)
ORDER BY type DESC, name DESC;

-- name: columns
SELECT name FROM pragma_table_xinfo(?1);

-- name: column
SELECT 1 FROM pragma_table_xinfo(?1) WHERE name = ?2;

-- name: version
SELECT schema_version FROM quern_meta WHERE one = 1;

-- name: set_version
INSERT INTO quern_meta (one, schema_version, counter, boot_id, created_at_ms)
VALUES (1, ?1, 0, ?3, ?2)
ON CONFLICT (one) DO UPDATE SET schema_version = excluded.schema_version;
