-- changed.lua - schedulers load all entries again. Allowed when the memory is full.
--
-- KEYS: asynq:quern:schedule. Reply: 1.
local time = redis.call('TIME')
local old = string.match(redis.call('HGET', KEYS[1], 'version') or '', '^%d+$')
local version = math.max((tonumber(old or '0') + 1) % 9e15, time[1] * 1000000 + tonumber(time[2]))
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version))
return 1
