-- extend_set.lua - extends the lease of a set.
--
-- KEYS: prefix of the queue. ARGV: key of the set, length of the lease in ms. Reply: 1 extended, 0
-- the lease is lost.
local sets = KEYS[1] .. 'aggregation_sets'
local time = redis.call('TIME')
redis.call('ZREM', KEYS[1] .. 'lease', '')
if not redis.call('ZSCORE', sets, ARGV[1]) then
    return 0
end
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
redis.call('ZADD', sets, string.format('%d', math.ceil(until_ms / 1000)), ARGV[1])
return 1
