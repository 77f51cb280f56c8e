-- doctor_lock.lua - does each lock guard a task? With repair it removes those that guard
-- none and never expire.
--
-- KEYS: prefix of the queue. ARGV: 1 "1" to repair, then keys of locks.
-- Reply: for each that guards none: the id it names, text, seconds until it expires (-1: never).
--
-- Go leaves locks behind that expire: when it deletes all tasks of a state, when an id
-- was taken, when a group was aggregated. That is how asynq works, not damage.
local Q = KEYS[1]

-- A grouped task of Go names its lock only in the message.
local function fault(lock, id)
    local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'msg', 'state', 'unique_key')
    if not fields[1] then
        return 'the lock ' .. lock .. ' names a task that does not exist'
    elseif fields[3] ~= lock and not string.find(fields[1], lock, 1, true) then
        return 'the lock ' .. lock .. ' names a task that has another key'
    elseif fields[2] == 'completed' then
        return 'the lock ' .. lock .. ' names a completed task'
    end
    return nil
end

local reply, gone = {}, {}
for i = 2, #ARGV do
    local id = redis.pcall('GET', ARGV[i])
    -- One that holds for its whole time guards more than a task.
    local text = type(id) == 'string' and not string.find(id, '\n', 1, true) and
        fault(ARGV[i], id)
    if text then
        reply[#reply + 1] = id
        reply[#reply + 1] = text
        reply[#reply + 1] = redis.call('TTL', ARGV[i])
        if reply[#reply] < 0 then
            -- bug LOCK_OF_GO_REMOVED: if true then
            gone[#gone + 1] = ARGV[i]
        end
    end
end
if ARGV[1] == '1' and #gone > 0 then
    redis.call('DEL', unpack(gone))
end
return reply
