-- lib_due.lua - when delayed tasks are due, to the millisecond.
--
-- The score in scheduled and retry is the second rounded up; the index quern:due has the moment in
-- ms. An entry of the index counts only while the task's score is its second rounded up, since Go
-- moves tasks without knowing of the index.
local function due_is_valid(Q, id, due_ms)
    local second = math.ceil(due_ms / 1000)
    return tonumber(redis.call('ZSCORE', Q .. 'scheduled', id) or '') == second or
        tonumber(redis.call('ZSCORE', Q .. 'retry', id) or '') == second
end

local function due_moment_ms(Q, id, score)
    local due_ms = tonumber(redis.call('ZSCORE', Q .. 'quern:due', id) or '')
    if due_ms and math.ceil(due_ms / 1000) == score then
        return due_ms
    end
    return score * 1000
end

-- When the next task of the queue is due; math.huge: there is none. Of the index it reads some
-- entries only: behind that many stale ones the answer is too early; the next forward then removes
-- them. heads, which may be missing, gets the first scores of scheduled and retry.
local function next_due_ms(Q, heads)
    local best = math.huge
    for _, container in ipairs({'scheduled', 'retry'}) do
        local head = redis.call('ZRANGE', Q .. container, 0, 0, 'WITHSCORES')
        best = math.min(best, head[2] and tonumber(head[2]) * 1000 or best)
        if heads then
            heads[container] = tonumber(head[2])
        end
    end
    if best == math.huge then
        return best
    end
    local rows = redis.call('ZRANGEBYSCORE', Q .. 'quern:due', '-inf', best, 'WITHSCORES', 'LIMIT',
        0, 16)
    for i = 1, #rows, 2 do
        local due_ms = tonumber(rows[i + 1])
        if i == 31 or due_is_valid(Q, rows[i], due_ms) then
            return math.min(best, due_ms)
        end
    end
    return best
end

-- When forward has to look at the lanes again: it puts their tasks ahead when half of the time is
-- over that they have in scheduled. head_s: the first score there. While that is a task that is
-- due before them, or there are too many for one call, this is each full second.
local function lanes_due_ms(head_s, now_s)
    return 1000 * math.max(math.ceil(head_s - @QN_LIMIT_ASIDE_S@ / 2), now_s + 1)
end
