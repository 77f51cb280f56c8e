-- set_limit.lua - sets or removes limits of a queue (lib_limits.lua). It works when the memory is
-- full, too: a script that has begun to write may go on.
--
-- KEYS: prefix of the queue. ARGV: "s", field of quern:limit:set, value; or "r" and the fields to
-- remove. Reply: how many were set or removed.
local Q = KEYS[1]
local key, meta = Q .. 'quern:limit:set', Q .. 'quern:meta'
redis.call('HGET', meta, 'limits')
redis.pcall('ZREM', Q .. 'lease', '')
local kind = redis.call('TYPE', key).ok
if kind ~= 'hash' and kind ~= 'none' then
    redis.call('DEL', key)
end
local count = 1
if ARGV[1] == 's' then
    redis.call('HSET', key, ARGV[2], ARGV[3])
else
    count = redis.call('HDEL', key, unpack(ARGV, 2))
end
if redis.call('EXISTS', key) == 1 then
    redis.call('HSET', meta, 'limits', '1')
else
    redis.call('HDEL', meta, 'limits')
end
return count
