-- doctor_page.lua - a page of what a container lists, with a first check of each task. Writes
-- nothing.
--
-- KEYS: prefix of the queue. ARGV: 1 the container: a state, lease, quern:due or g:<group>,
-- 2 "list" or "zset", 3 cursor ("0" to begin), 4 how many.
-- Reply: {next cursor ("0": that was all), then for each: id, 1 if it looks wrong else 0, its token
-- or "", its message without payload}.
local Q = KEYS[1]
local container = ARGV[1]
-- include: lib_message.lua
-- include: lib_due.lua
-- include: limits/lib_aside.lua

local ids, cursor = {}, '0'
if ARGV[2] == 'list' then
    local first = tonumber(ARGV[3])
    ids = redis.call('LRANGE', Q .. container, first, first + ARGV[4] - 1)
    if #ids == tonumber(ARGV[4]) then
        cursor = string.format('%.0f', first + #ids)
    end
else
    local page = redis.call('ZSCAN', Q .. container, ARGV[3], 'COUNT', ARGV[4])
    cursor = page[1]
    for i = 1, #page[2], 2 do
        ids[#ids + 1] = page[2][i]
    end
end

local expected = container
if container == 'lease' then
    expected = 'active'
elseif string.sub(container, 1, 2) == 'g:' then
    expected = 'aggregating'
end

local function looks_wrong(id, fields)
    return not fields[1] or fields[1] == '' or fields[2] ~= expected or
        (container == 'active' and not redis.call('ZSCORE', Q .. 'lease', id)) or
        (container == 'scheduled' and fields[4] and not is_in_lane(Q, id, fields[2], fields[4]))
end

local reply = {cursor}
for _, id in ipairs(ids) do
    local wrong, token, message
    if container == 'quern:due' then
        local due_ms = redis.call('ZSCORE', Q .. container, id)
        wrong = not due_is_valid(Q, id, tonumber(due_ms))
    else
        local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'msg', 'state', 'pending_since',
            'quern_aside')
        wrong = looks_wrong(id, fields)
        token = fields[3]
        message = fields[1] and without_payload(fields[1])
    end
    reply[#reply + 1] = id
    reply[#reply + 1] = wrong and 1 or 0
    reply[#reply + 1] = token or ''
    reply[#reply + 1] = message or ''
end
return reply
