-- poll.lua - polls all queues of a worker: is there anything to recover, and is there work without
-- a notification? Writes nothing.
--
-- KEYS: prefixes of queues.
-- Reply: {the clock in ms, 1 if there is work, else 0, microseconds until a delayed task is due (0:
-- now, -1: none), then for each queue 1 if something is active or leased there, or a worker has its
-- solo lock, else 0}.
--
-- A queue with keys of the wrong type counts as active: recover.lua, which then reads it, reports
-- the damage.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
-- include: lib_due.lua
local reply = {string.format('%.0f', math.floor(now_us / 1000)), 0, -1}
local due_ms = math.huge

local function is_held(Q)
    if redis.call('EXISTS', Q .. 'paused') == 0 and (redis.call('LLEN', Q .. 'pending') > 0 or
        redis.call('EXISTS', Q .. 'quern:lanes') > redis.call('EXISTS', Q .. 'quern:lanes:idle'))
    then
        reply[2] = 1
    end
    due_ms = math.min(due_ms, next_due_ms(Q))
    local solo = redis.call('HGET', Q .. 'quern:meta', 'solo')
    return redis.call('EXISTS', Q .. 'active') == 1 or redis.call('EXISTS', Q .. 'lease') == 1 or
        solo and string.find(solo, '^%d+ %d+ %d+ .')
end

for i, Q in ipairs(KEYS) do
    local ok, held = pcall(is_held, Q)
    reply[i + 3] = (held or not ok) and 1 or 0
end
if due_ms ~= math.huge then
    reply[3] = string.format('%.0f', math.max(0, due_ms * 1000 - now_us))
end
return reply
