-- runs.lua - a page of the runs of a queue that workers of ours have started. Writes nothing.
--
-- KEYS: prefix of the queue. ARGV: 1 first place in active, 2 how many.
-- Reply: {ids looked at, then for each such run: task id, worker id, started_at_ms, quern_opts or "",
-- message without its payload}.
local Q = KEYS[1]

local function varint(bytes, at)
    local value, unit = 0, 1
    while true do
        local byte = string.byte(bytes, at)
        if not byte or unit > 2 ^ 42 then
            return nil
        end
        value = value + byte % 128 * unit
        unit = unit * 128
        at = at + 1
        if byte < 128 then
            return value, at
        end
    end
end

-- The payload is field 2, behind the type; what cannot be understood is left as it is.
local function without_payload(message)
    local at = 1
    if string.byte(message, 1) == 10 then
        local size, data = varint(message, 2)
        at = size and data + size or 1
    end
    if string.byte(message, at) ~= 18 then
        return message
    end
    local size, data = varint(message, at + 1)
    return size and string.sub(message, 1, at - 1) .. string.sub(message, data + size) or message
end

local ids = redis.call('LRANGE', Q .. 'active', ARGV[1], ARGV[1] + ARGV[2] - 1)
local reply = {#ids}
for _, id in ipairs(ids) do
    local fields = redis.call('HMGET', Q .. 't:' .. id, 'quern_run', 'pending_since', 'quern_opts')
    local started_at, worker = string.match(fields[1] or '', '^1 (%d+) %d+ %d+ (.*)$')
    -- Without a token a worker of Go has it now, and quern_run is of an earlier run.
    if started_at and fields[2] then
        local message = redis.call('HGET', Q .. 't:' .. id, 'msg') or ''
        for _, item in ipairs({id, worker, started_at, fields[3] or '', without_payload(message)}) do
            reply[#reply + 1] = item
        end
    end
end
return reply
