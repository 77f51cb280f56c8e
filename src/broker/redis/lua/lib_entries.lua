-- lib_entries.lua - the entries of schedulers in one queue.
--
-- Q quern:entries: name -> "created_at_ms\n" and the definition (schedule/definition.c).
-- Q quern:ticks: name -> "revision last_s runs paused_at_ms", small and apart, since each tick
--   writes it; the empty name -> "epoch revision": the highest epoch that was claimed, and the last
--   revision that was given.

-- The row of an entry; nil if it is damaged.
local function entry_row(text)
    local revision, last_s, runs, paused =
        string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
    if revision and #text <= 64 then
        return {revision = revision, last_s = tonumber(last_s), runs = tonumber(runs),
            paused = paused}
    end
    return nil
end

local function entry_text(row)
    return string.format('%s %.0f %.0f %s', row.revision, row.last_s, row.runs, row.paused)
end

-- The highest epoch and the last revision. Garbage counts as none: the next write replaces it.
-- Above 9e15 not each is a number of its own.
local function entries_head(text)
    local epoch, revision = string.match(text or '', '^(%d+) (%d+)$')
    epoch, revision = tonumber(epoch or '0'), tonumber(revision or '0')
    return epoch <= 9e15 and epoch or 0, revision <= 9e15 and revision or 0
end

local function entries_head_text(epoch, revision)
    return string.format('%.0f %.0f', epoch, revision)
end

-- A revision greater than each that was given, also where the head was lost. time: of TIME.
local function entries_next(revision, time)
    return math.max(revision + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]))
end

-- Whether it is a lock of this queue with a time that SET accepts; the definition of an entry may
-- be damaged.
local function entries_lock_is_sound(Q, lock, lock_ms)
    return string.sub(lock, 1, #Q + 7) == Q .. 'unique:' and
        string.find(lock_ms, '^[1-9]%d*x?%l?$') and #lock_ms < 18
end
