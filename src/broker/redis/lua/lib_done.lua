-- lib_done.lua - common to all ends of runs: the ids that leave `lease`, the keys to delete, the
-- counters, the fields of quern:meta. A run that is done and leaves nothing behind needs no more.
-- Expects Q, the prefix of the queue.

-- --- asynq's counters ---

-- Runs that ended and runs that failed, in total and of the day (UTC). The counters of a day are
-- kept for 90 days from its first run on.
--
-- Statistics must not keep a run from ending: a counter that is not a number is not changed, and
-- doctor reports it. So counting is the one thing that may fail while a script writes.

local DAY_KEPT_S = @QN_HISTORY_DAYS@ * 86400
local COUNT_MAX = 9223372036854774784

-- The date of a moment, as "2026-11-21". Counted in years that begin in March, so that the day of a
-- leap year is their last.
local function date_of(seconds)
    local floor = math.floor
    local days = floor(seconds / 86400) + 719468
    local era = floor(days / 146097)
    local day = days - era * 146097
    local year = floor((day - floor(day / 1460) + floor(day / 36524) - floor(day / 146096)) / 365)
    day = day - (365 * year + floor(year / 4) - floor(year / 100))
    local month = floor((5 * day + 2) / 153)
    day = day - floor((153 * month + 2) / 5) + 1
    month = month < 10 and month + 3 or month - 9
    year = year + era * 400 + (month <= 2 and 1 or 0)
    return string.format('%04d-%02d-%02d', year, month, day)
end

-- Counts in total and of the day; `more` is a text. At the end of 64 bits totals start from 0
-- together, as asynq's: then, or if `wraps` is true, true is returned.
local function count_more(key, more, day, now_s, wraps)
    local total = redis.pcall('INCRBY', key, more)
    local is_over = type(total) == 'table' and string.find(total.err, 'overflow', 1, true)
    if is_over or type(total) == 'number' and (wraps or total > COUNT_MAX) then
        redis.call('SET', key, more)
        wraps = true
    end
    key = key .. day
    if redis.pcall('INCRBY', key, more) == tonumber(more) then
        redis.call('EXPIREAT', key, string.format('%.0f', now_s + DAY_KEPT_S))
    end
    return wraps
end

local function count_write(Q, now_s, processed, failed)
    local day = ':' .. date_of(now_s)
    local wraps = count_more(Q .. 'processed', string.format('%d', processed), day, now_s, false)
    if failed > 0 then
        count_more(Q .. 'failed', string.format('%d', failed), day, now_s, wraps)
    end
end

-- --- Ends ---

local T = Q .. 't:'
local time = redis.call('TIME')
local now_s = tonumber(time[1])

local leaving, keys_gone = {}, {}
local processed, failed = 0, 0
-- Fields of quern:meta and their new texts, brakes and the solo lock; and optional
-- commands: one that fails stops nothing.
local meta_sets, notes = nil, nil
-- Whether any run that had started ended otherwise than by the death of its process.
local any_ended = false

local function count(processed_more, failed_more)
    processed = processed + processed_more
    failed = failed + failed_more
    any_ended = true
end

-- Its first command fails if `lease` has the wrong type, and is one that Redis allows when the
-- memory is full, so that all later ones are allowed: it precedes all writes, even if no id leaves.
-- The caller removes the ids from `active`, since it knows where they are in that list.
local function done_write()
    redis.call('ZREM', Q .. 'lease', leaving[1] or '', unpack(leaving, 2))
    for i = 1, #keys_gone, 1000 do
        redis.call('DEL', unpack(keys_gone, i, math.min(i + 999, #keys_gone)))
    end
    if processed > 0 then
        count_write(Q, now_s, processed, failed)
    end
    if meta_sets then
        redis.call('HSET', Q .. 'quern:meta', unpack(meta_sets))
    end
    for i = 1, notes and #notes or 0 do
        redis.pcall(unpack(notes[i]))
    end
end
