-- lib_count.lua - asynq's counters: runs that ended and runs that failed, in total and of the day
-- (UTC). A day's is kept for 90 days from its first run on.

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

-- Reads a counter before anything is written. One that holds no number fails here.
local function count_read(key)
    local value = redis.call('GET', key)
    if value and not string.match(value, '^%d+$') then
        redis.call('INCRBY', key, 0)
    end
    return tonumber(value or 0)
end

-- What count_write needs, read before anything is written.
local function count_plan(Q, now_s, failed)
    local day = ':' .. date_of(now_s)
    local counts = {day = day, expires_s = string.format('%.0f', now_s + 7776000)}
    counts.processed = count_read(Q .. 'processed')
    count_read(Q .. 'processed' .. day)
    if failed > 0 then
        counts.failed = count_read(Q .. 'failed')
        count_read(Q .. 'failed' .. day)
    end
    return counts
end

local function count_day(key, count, counts)
    if redis.call('INCRBY', key .. counts.day, count) == count then
        redis.call('EXPIREAT', key .. counts.day, counts.expires_s)
    end
end

-- At the end of 64 bits both totals begin anew together, as asynq's.
local function count_write(Q, counts, processed, failed)
    local wraps = counts.processed + processed > 9223372036854774784
    count_day(Q .. 'processed', processed, counts)
    redis.call(wraps and 'SET' or 'INCRBY', Q .. 'processed', processed)
    if failed > 0 then
        count_day(Q .. 'failed', failed, counts)
        wraps = wraps or counts.failed + failed > 9223372036854774784
        redis.call(wraps and 'SET' or 'INCRBY', Q .. 'failed', failed)
    end
end
