-- record.lua - what Go's Inspector lists of the leader. Allowed when the memory is full.
--
-- KEYS: asynq:schedulers, or asynq:schedulers:{...}.
-- ARGV: "list", seconds to live (0: removed), member; or "entries", seconds to live, SchedulerEntry
--   of each entry.
-- Reply: 1.
local key, live_s = KEYS[1], tonumber(ARGV[2])
if ARGV[1] == 'list' then
    redis.call('ZREM', key, ARGV[3])
    if live_s > 0 then
        redis.call('ZADD', key, redis.call('TIME')[1] + live_s, ARGV[3])
    end
    return 1
end
redis.call('DEL', key)
for i = #ARGV, 3, -1000 do
    local first = math.max(i - 999, 3)
    local part = {}
    for j = i, first, -1 do
        part[#part + 1] = ARGV[j]
    end
    redis.call('LPUSH', key, unpack(part))
end
if #ARGV > 2 then
    redis.call('EXPIRE', key, live_s)
end
return 1
