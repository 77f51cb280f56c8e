-- runs.lua - a page of the runs of a queue that workers of ours have started. Writes nothing.
--
-- KEYS: prefix of the queue. ARGV: 1 first place in active, 2 how many.
-- Reply: {ids checked, then for each such run: task id, worker id, started_at_ms, quern_opts or
-- "", message without its payload}.
local Q = KEYS[1]

-- include: lib_message.lua

local ids = redis.call('LRANGE', Q .. 'active', ARGV[1], ARGV[1] + ARGV[2] - 1)
local reply = {#ids}
for _, id in ipairs(ids) do
    local fields = redis.call('HMGET', Q .. 't:' .. id, 'quern_run', 'pending_since', 'quern_opts')
    local started_at, worker = string.match(fields[1] or '', '^1 (%d+) %d+ %d+ (.*)$')
    -- Without a token a worker of Go has it now, and quern_run is of an earlier run.
    if started_at and fields[2] then
        local message = redis.call('HGET', Q .. 't:' .. id, 'msg') or ''
        local items = {id, worker, started_at, fields[3] or '', without_payload(message)}
        for _, item in ipairs(items) do
            reply[#reply + 1] = item
        end
    end
end
return reply
