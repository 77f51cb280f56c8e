-- limits.lua - the limits of a queue with their present use. Writes nothing.
--
-- KEYS: prefix of the queue. Reply: for each limit its scope (1 queue, 4 semaphore), name, count,
-- period in ms (0: of tasks that run), burst, and how many run, have started, or hold a token.
local Q = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- include: limits/lib_tokens.lua
-- include: lib_limits.lua
local limits, reply = limits_read(Q, now_ms), {}

local function add(...)
    for _, value in ipairs({...}) do
        reply[#reply + 1] = value
    end
end
if limits and limits.runs then
    add(1, '', limits.runs, 0, 0, limits.running)
end
if limits and limits.starts then
    local starts = limits.starts
    add(1, '', starts.count, starts.period_ms, starts.burst, starts_used(starts))
end
for _, semaphore in ipairs(limits and limits.semaphores or {}) do
    if semaphore.key then
        add(4, semaphore.name, semaphore.count, 0, 0, semaphore.used)
    end
end
return reply
