-- arm.lua - is there work in these queues, and when does the next delayed task become due?
--
-- Sent by the tracked connection: every key that is read here wakes the worker when it changes, also
-- one that does not exist yet. Writes nothing. Redis before 7.2 tracks the keys that a script
-- declares, not those that it reads: so all of them are declared, unlike in our other scripts.
--
-- KEYS: for each queue pending, paused, scheduled, retry, quern:due.
-- Reply: 1 if there is work, else 0; microseconds until a delayed task is due (0: now, -1: none).
--
-- A queue with keys of the wrong type gives what was read before them, and stops no other; what is
-- wrong is told by recover.lua.
-- include: lib_due.lua
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local work = 0
local due_ms = math.huge

local function look(pending, paused)
    if redis.call('EXISTS', paused) == 0 and redis.call('LLEN', pending) > 0 then
        work = 1
    end
    due_ms = math.min(due_ms, next_due_ms(string.sub(pending, 1, -1 - #'pending')))
end

for i = 1, #KEYS, 5 do
    pcall(look, KEYS[i], KEYS[i + 1])
end
if due_ms == math.huge then
    return {work, -1}
end
return {work, math.max(0, due_ms * 1000 - now_us)}
