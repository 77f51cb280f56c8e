-- lib_done.lua - what all ends of runs have in common: who leaves `lease`, which keys go, the
-- counters, the streak. It is all that a run needs that is done and leaves nothing behind.
-- Expects Q, the prefix of the queue, and lib_count.lua.
local T = Q .. 't:'
local time = redis.call('TIME')
local now_s = tonumber(time[1])

local leaving, keys_gone = {}, {}
local processed, failed = 0, 0

-- The streak: crashes of different tasks in a row.
local streak_count, streak_id, streak_changed = 0, '', false
local function streak_read()
    local text = redis.call('HGET', Q .. 'quern:meta', 'streak')
    if text then
        local count, id = string.match(text, '^(%d+) (.*)$')
        streak_count, streak_id = tonumber(count or 0), id or ''
    end
end

local function count(processed_more, failed_more)
    processed = processed + processed_more
    failed = failed + failed_more
    if streak_count > 0 then
        streak_count, streak_id, streak_changed = 0, '', true
    end
end

-- Its first command tells whether `lease` has the right type, and is one that Redis allows without
-- memory, so that all which follow are allowed: it comes before all that is written, even if nobody
-- leaves. What leaves `active` its caller removes from there: he knows how to find it in the list.
local function done_write()
    redis.call('ZREM', Q .. 'lease', leaving[1] or '', unpack(leaving, 2))
    for i = 1, #keys_gone, 1000 do
        redis.call('DEL', unpack(keys_gone, i, math.min(i + 999, #keys_gone)))
    end
    if processed > 0 then
        count_write(Q, now_s, processed, failed)
    end
    if streak_changed then
        redis.call('HSET', Q .. 'quern:meta', 'streak', string.format('%d ', streak_count) ..
            streak_id)
    end
end
