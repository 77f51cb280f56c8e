-- announce.lua - one part of a worker's heartbeat. The parts lie in different slots of a cluster, so
-- each is a call of its own; they do not rely on each other.
--
-- ARGV 1 names the part, KEYS[1] is the key that it writes:
--   listed   asynq:servers or asynq:workers; 2 the member, 3 seconds to live
--   server   asynq:servers:{...}, with KEYS[2] asynq:workers:{...}; 2 seconds to live, 3 ServerInfo,
--            then pairs of a task id and its WorkerInfo
--   queues   asynq:queues; names
--   record   asynq:quern:workers; 2 worker id, 3 the record without its heartbeat
--   holder   Q quern:workers; the same
-- Reply: 1.
--
-- Each begins with a removal that removes nothing, which Redis allows without memory; so all that
-- follows is allowed.
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local key = KEYS[1]
-- include: lib_workers.lua

local function put_record(separator)
    local gone = workers_gone(key, now_ms)
    redis.call('HDEL', key, '', unpack(gone))
    redis.call('HSET', key, ARGV[2], string.format('%.0f', now_ms) .. separator .. ARGV[3])
end

local parts = {}

function parts.listed()
    redis.call('ZREM', key, '')
    redis.call('ZADD', key, tonumber(time[1]) + tonumber(ARGV[3]), ARGV[2])
end

function parts.server()
    redis.call('DEL', KEYS[2])
    redis.call('SETEX', key, ARGV[2], ARGV[3])
    for i = 4, #ARGV, 1000 do
        redis.call('HSET', KEYS[2], unpack(ARGV, i, math.min(i + 999, #ARGV)))
    end
    redis.call('EXPIRE', KEYS[2], ARGV[2])
end

function parts.queues()
    redis.call('SREM', key, '')
    redis.call('SADD', key, unpack(ARGV, 2))
end

function parts.record()
    put_record('\n')
end

function parts.holder()
    put_record(' ')
end

parts[ARGV[1]]()
return 1
