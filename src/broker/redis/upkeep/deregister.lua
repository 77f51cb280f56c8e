-- deregister.lua - a worker leaves a queue: removes its record, and returns the solo lock if the
-- worker has it. It may have it without knowing: the answer that gave it the lock came too late.
--
-- KEYS: prefix of the queue. ARGV: worker id. Reply: 1.
local Q, id = KEYS[1], ARGV[1]
redis.call('HDEL', Q .. 'quern:workers', id)
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
-- include: lib_deaths.lua
local text = redis.pcall('HGET', Q .. 'quern:meta', 'solo')
local lock = solo_read(type(text) == 'string' and text or '')
if lock.owner == id then
    solo_return(lock, 0)
    redis.call('HSET', Q .. 'quern:meta', 'solo', solo_text(lock))
end
return 1
