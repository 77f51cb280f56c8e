-- arm.lua - is there work in these queues, and when does the next delayed task become due?
--
-- Sent by the tracked connection: every key that is read here wakes the worker when it changes, also
-- one that does not exist yet. Writes nothing. Redis before 7.2 tracks the keys that a script
-- declares, not those that it reads: so all of them are declared, unlike in our other scripts.
--
-- KEYS: for each queue pending, paused, scheduled, retry, quern:due.
-- Reply: 1 if there is work, else 0; microseconds until a delayed task is due (0: now, -1: none).

-- How many entries of the due index may be stale before the last of them is taken for true; then
-- forward, which drops them, is called a bit early.
local LOOK_MAX = 8

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local due_us = math.huge

local work = 0
for i = 1, #KEYS, 5 do
    local pending, paused, scheduled, retry, due = unpack(KEYS, i, i + 4)
    if redis.call('EXISTS', paused) == 0 and redis.call('LLEN', pending) > 0 then
        work = 1
    end
    local places = {}
    for _, place in ipairs({scheduled, retry}) do
        local head = redis.call('ZRANGE', place, 0, 0, 'WITHSCORES')
        if head[1] then
            due_us = math.min(due_us, tonumber(head[2]) * 1000000)
            places[#places + 1] = place
        end
    end
    -- Of nothing delayed there is no exact moment: what the index may hold is stale.
    local index = {}
    if #places > 0 then
        index = redis.call('ZRANGE', due, 0, LOOK_MAX - 1, 'WITHSCORES')
    end
    for j = 1, #index, 2 do
        local due_ms = tonumber(index[j + 1])
        local valid = j == 2 * LOOK_MAX - 1
        for _, place in ipairs(places) do
            local score = redis.call('ZSCORE', place, index[j])
            valid = valid or (score and tonumber(score) == math.ceil(due_ms / 1000))
        end
        if valid then
            due_us = math.min(due_us, due_ms * 1000)
            break
        end
    end
end
if due_us == math.huge then
    return {work, -1}
end
return {work, math.max(0, due_us - now_us)}
