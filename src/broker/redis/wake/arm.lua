-- arm.lua - is there work in these queues, and when does the next delayed task become due?
--
-- Sent by the tracked connection: every key that is read here wakes the worker when it changes,
-- also one that does not exist yet. Writes nothing. Redis before 7.2 tracks the keys that a script
-- declares, not those that it reads: so all of them are declared, unlike in our other scripts.
--
-- KEYS: for each queue pending, paused, scheduled, retry, quern:due, quern:skip, quern:braked.
-- ARGV: the worker's host.
-- Reply: 1 if there is work, else 0; microseconds until a delayed task is due (0: now, -1: none).
-- Not counted as work: a queue that is braked on this host, and charged tasks that no worker could
-- take (lib_lease.lua); when that changes, with time or with quern:skip and quern:braked, a worker
-- arms again. quern:meta is not read, as each lease writes there.
--
-- Of a queue with keys of the wrong type only the keys before them count; it stops no other, and
-- recover.lua reports the damage.
-- include: lib_due.lua
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local work = 0
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

local function look(pending, paused, skip, braked)
    local size = redis.call('EXISTS', paused) == 0 and redis.call('LLEN', pending) or 0
    if size > 0 and redis.pcall('HEXISTS', braked, ARGV[1]) ~= 1 and
        size > skipped(pending, skip) then
        work = 1
    end
    due_ms = math.min(due_ms, next_due_ms(string.sub(pending, 1, -1 - #'pending')))
end

for i = 1, #KEYS, 7 do
    pcall(look, KEYS[i], KEYS[i + 1], KEYS[i + 5], KEYS[i + 6])
end
if due_ms == math.huge then
    return {work, -1}
end
return {work, math.max(0, due_ms * 1000 - now_us)}
