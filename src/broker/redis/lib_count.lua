-- lib_count.lua - asynq's counters: runs that ended and runs that failed, in total and of the day
-- (UTC). A day's is kept for 90 days from its first run on.

-- QN_HISTORY_DAYS of limits.h; unit.redis_scripts sees to that.
local DAY_KEPT_S = 7776000

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

-- Reads a counter; nil if it is none: then nothing is counted there. Statistics must not keep a run
-- from ending; doctor tells of what is damaged.
local COUNT_MAX = 9223372036854774784
local function count_read(key)
    local value = redis.pcall('GET', key) or '0'
    return type(value) == 'string' and string.match(value, '^%d+$') and tonumber(value) or nil
end

-- What count_write needs, read before anything is written.
local function count_plan(Q, now_s, failed)
    local day = ':' .. date_of(now_s)
    local counts = {day = day, expires_s = string.format('%.0f', now_s + DAY_KEPT_S)}
    for _, name in ipairs({'processed', failed > 0 and 'failed' or nil}) do
        counts[name] = count_read(Q .. name)
        counts[name .. day] = count_read(Q .. name .. day)
    end
    return counts
end

local function count_day(Q, name, more, counts)
    local key = name .. counts.day
    if counts[key] and counts[key] + more <= COUNT_MAX and
        redis.call('INCRBY', Q .. key, more) == more then
        redis.call('EXPIREAT', Q .. key, counts.expires_s)
    end
end
local function count_total(Q, name, more, counts, wraps)
    if counts[name] then
        redis.call(wraps and 'SET' or 'INCRBY', Q .. name, more)
    end
end

-- At the end of 64 bits both totals begin anew together, as asynq's.
local function count_write(Q, counts, processed, failed)
    local wraps = (counts.processed or 0) + processed > COUNT_MAX
    count_day(Q, 'processed', processed, counts)
    count_total(Q, 'processed', processed, counts, wraps)
    if failed > 0 then
        count_day(Q, 'failed', failed, counts)
        wraps = wraps or (counts.failed or 0) + failed > COUNT_MAX
        count_total(Q, 'failed', failed, counts, wraps)
    end
end
