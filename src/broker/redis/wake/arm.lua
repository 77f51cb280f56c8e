-- arm.lua - is there work in these queues, and when does the next delayed task become due?
--
-- Sent by the tracked connection: every key that is read here wakes the worker when it changes,
-- also one that does not exist yet. Writes nothing. Redis before 7.2 tracks the keys that a script
-- declares, not those that it reads: so all of them are declared, unlike in our other scripts.
--
-- KEYS: for each queue pending, paused, scheduled, retry, quern:due, quern:skip, quern:braked,
-- quern:limit:set, quern:lanes, quern:lanes:idle, and perhaps active.
-- ARGV: the worker's host; how many keys a queue has.
-- Reply: 1 if there is work, else 0; microseconds until a delayed task is due, or forward has to
-- look at the lanes (0: now, -1: none); 1 if a queue gives nothing until one of its runs ends. Then
-- the caller declares `active`, too; not otherwise, as each lease writes there.
-- Not counted as work: a queue that is braked on this host or has reached a limit, and charged
-- tasks that no worker could take (lib_lease.lua); when that changes, with time or with one of the
-- keys, a worker arms again. quern:meta is not read, as each lease writes there.
--
-- Of a queue with keys of the wrong type only the keys before them count; it stops no other, and
-- recover.lua reports the damage.
-- include: lib_due.lua
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local work, full = 0, 0
local due_ms = math.huge

-- How many at the head are known to be charged.
local function skipped(pending, skip)
    local text = redis.pcall('GET', skip)
    local count, at_s, id =
        string.match(type(text) == 'string' and text or '', '^(%d+) (%d+) %d+ (.*)$')
    if count and math.abs(tonumber(time[1]) - tonumber(at_s)) <= 10 and
        redis.pcall('LINDEX', pending, -tonumber(count)) == id then
        return tonumber(count)
    end
    return 0
end

local function has_room(Q)
-- include: limits/lib_tokens.lua
-- include: limits/lib_limits.lua
    local limits = limits_read(Q, math.floor(now_us / 1000), {})
    if limits and (limits.runs and limits.running >= limits.runs or
        limits.semaphores[1] and limits_room(limits) == 0) then
        full = 1
    end
    if limits and limits.semaphores[1] and limits_room(limits) == 0 then
        -- What frees a token may be no news of this queue.
        due_ms = math.min(due_ms, math.ceil(now_us / 1000) + @QN_LIMIT_TOKEN_MS@)
    end
    return not limits or limits_room(limits) > 0
end

-- Whether some that wait in lanes may run: no lease found just now that they all have to wait
-- (lib_lease_lanes.lua). It finds that for a moment only where an end in another queue counts.
local function may_run(lanes, idle)
    if redis.call('EXISTS', lanes) == 0 then
        return false
    end
    local left_ms = redis.call('PTTL', idle)
    if left_ms >= 0 and left_ms <= @QN_LIMIT_TOKEN_MS@ then
        due_ms = math.min(due_ms, math.ceil(now_us / 1000) + left_ms)
    end
    return left_ms == -2
end

local function look(pending, paused, ...)
    local _, _, _, skip, braked, limit, lanes, idle = ...
    local Q = string.sub(pending, 1, -1 - #'pending')
    local runs = redis.call('EXISTS', paused) == 0
    local size = runs and redis.call('LLEN', pending) or 0
    local waits = runs and may_run(lanes, idle)
    if (waits or size > 0 and size > skipped(pending, skip)) and
        redis.pcall('HEXISTS', braked, ARGV[1]) ~= 1 and
        (redis.call('EXISTS', limit) == 0 or has_room(Q)) then
        work = 1
    end
    local heads = {}
    due_ms = math.min(due_ms, next_due_ms(Q, heads))
    if heads.scheduled and redis.call('EXISTS', lanes) == 1 then
        due_ms = math.min(due_ms, lanes_due_ms(heads.scheduled, tonumber(time[1])))
    end
end

for i = 1, #KEYS, tonumber(ARGV[2]) do
    pcall(look, unpack(KEYS, i, i + 9))
end
return {work, due_ms == math.huge and -1 or math.max(0, due_ms * 1000 - now_us), full}
