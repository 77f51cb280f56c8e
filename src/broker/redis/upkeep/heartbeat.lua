-- heartbeat.lua - a worker's heartbeat: parts that each write one key and do not rely on each
-- other.
--
-- All of them go in one call; on a cluster, where the keys are at different nodes, each in its own.
--
-- ARGV: for each key the name of its part, how many arguments follow, and these:
--   listed   asynq:servers or asynq:workers; 1 the member, 2 seconds to live
--   server   asynq:servers:{...}; 1 seconds to live, 2 ServerInfo
--   runs     asynq:workers:{...}; 1 seconds to live, then pairs of a task id and its WorkerInfo
--   queues   asynq:queues; names
--   record   asynq:quern:workers; 1 worker id, 2 the record without its heartbeat
--   holder   Q quern:workers; the same
-- Reply: 1.
--
-- Each part begins with a removal without effect, which Redis allows when the memory is full, so
-- all later writes are allowed, and which fails if the key has the wrong type. Such a key stops no
-- other part: its error is returned when all are done.
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
-- include: lib_workers.lua

local function put_record(key, args, separator)
    redis.call('HDEL', key, '')
    local gone = workers_gone(key, now_ms)
    if #gone > 0 then
        redis.call('HDEL', key, unpack(gone))
    end
    redis.call('HSET', key, args[1], string.format('%.0f', now_ms) .. separator .. args[2])
end

local parts = {}

function parts.listed(key, args)
    redis.call('ZREM', key, '')
    redis.call('ZADD', key, tonumber(time[1]) + tonumber(args[2]), args[1])
end

function parts.server(key, args)
    redis.call('DEL', key)
    redis.call('SETEX', key, args[1], args[2])
end

function parts.runs(key, args)
    redis.call('DEL', key)
    for i = 2, #args, 1000 do
        redis.call('HSET', key, unpack(args, i, math.min(i + 999, #args)))
    end
    redis.call('EXPIRE', key, args[1])
end

function parts.queues(key, args)
    redis.call('SREM', key, '')
    redis.call('SADD', key, unpack(args))
end

function parts.record(key, args)
    put_record(key, args, '\n')
end

function parts.holder(key, args)
    put_record(key, args, ' ')
end

local at = 1
local failure = nil
for _, key in ipairs(KEYS) do
    local args = {}
    for i = 1, tonumber(ARGV[at + 1]) do
        args[i] = ARGV[at + 1 + i]
    end
    local ok, problem = pcall(parts[ARGV[at]], key, args)
    if not ok then
        failure = type(problem) == 'table' and problem or redis.error_reply(problem)
    end
    at = at + 2 + #args
end
return failure or 1
