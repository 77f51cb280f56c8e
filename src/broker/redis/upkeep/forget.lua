-- forget.lua - removes the records of dead workers that have no runs left in the queue.
--
-- KEYS: prefix of the queue. ARGV: worker ids. Reply: 1.
--
-- A request that such a worker had sent may still be in flight, and lease tasks for a worker that
-- is gone: for a while its record stays, so that these come back at once. It then has the status of
-- a leaving worker: they were not run, so no task is charged.
local KEPT_MS = 10000
local key = KEYS[1] .. 'quern:workers'
redis.call('ZREM', KEYS[1] .. 'lease', '')
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(ARGV) do
    local heartbeat, rest =
        string.match(redis.call('HGET', key, id) or '', '^(%d+) %S+ (%S+ ?.*)$')
    local age_ms = now_ms - (tonumber(heartbeat) or 0)
    if age_ms < 0 or age_ms > KEPT_MS then
        -- bug FORGOTTEN_AT_ONCE: if true then
        redis.call('HDEL', key, id)
    else
        redis.call('HSET', key, id, heartbeat .. ' draining ' .. rest)
    end
end
return 1
