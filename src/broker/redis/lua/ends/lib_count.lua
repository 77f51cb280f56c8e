-- lib_count.lua - asynq's counters: runs that ended and runs that failed, in total and of the day
-- (UTC). The counters of a day are kept for 90 days from its first run on.
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

local time = redis.call('TIME')
local now_s = tonumber(time[1])
local day = nil

local function count_write(Q, processed, failed)
    day = day or ':' .. date_of(now_s)
    local wraps = count_more(Q .. 'processed', string.format('%d', processed), day, now_s, false)
    if failed > 0 then
        count_more(Q .. 'failed', string.format('%d', failed), day, now_s, wraps)
    end
end

