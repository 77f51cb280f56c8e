-- doctor_hash.lua - checks that each of these tasks is in the place of its state. A first check;
-- writes nothing.
--
-- KEYS: prefix of the queue. ARGV: ids.
-- Reply: for each: "." it is, "p" its state is pending, "?" it is not; and then its message
-- without payload, else "".
local Q = KEYS[1]
-- include: lib_message.lua

local zsets = {scheduled = 'scheduled', retry = 'retry', archived = 'archived',
    completed = 'completed', active = 'lease'}

local reply = {}
for _, id in ipairs(ARGV) do
    local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'msg', 'state', 'group')
    local answer = '?'
    if fields[1] and fields[2] == 'pending' then
        answer = 'p'
    elseif fields[1] and zsets[fields[2]] then
        answer = redis.call('ZSCORE', Q .. zsets[fields[2]], id) and '.' or '?'
    elseif fields[1] and fields[2] == 'aggregating' and fields[3] then
        answer = redis.call('ZSCORE', Q .. 'g:' .. fields[3], id) and '.' or '?'
    end
    reply[#reply + 1] = answer
    reply[#reply + 1] = answer ~= '.' and fields[1] and without_payload(fields[1]) or ''
end
return reply
