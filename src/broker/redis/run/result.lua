-- result.lua - writes one field of a task for the run that holds its lease.
--
-- KEYS: prefix of the queue. ARGV: id, token, field, value. Reply: 1 written, 0 the lease is lost.
local Q = KEYS[1]
local key = Q .. 't:' .. ARGV[1]
redis.call('ZREM', Q .. 'lease', '')
local fields = redis.pcall('HMGET', key, 'state', 'pending_since')
if fields.err or fields[1] ~= 'active' or fields[2] ~= ARGV[2] or
    not redis.call('ZSCORE', Q .. 'lease', ARGV[1]) then
    return 0
end
redis.call('HSET', key, ARGV[3], ARGV[4])
return 1
