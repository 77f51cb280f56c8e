-- quarantine.lua - takes a leased task whose message cannot be read out of its queue.
--
-- KEYS: prefix of the queue. ARGV: id, token. Reply: 1 moved, 0 somebody else has it by now.
--
-- The message goes to quern:corrupt, where doctor finds it; the lock of the task is freed.
local Q = KEYS[1]
-- include: lib_lock.lua
local id, token = ARGV[1], ARGV[2]
redis.call('ZREM', Q .. 'lease', '')
local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'pending_since', 'msg', 'unique_key')
if fields.err or fields[1] ~= 'active' or fields[2] ~= token or
    not redis.call('ZSCORE', Q .. 'lease', id) then
    return 0
end
redis.call('LLEN', Q .. 'active')
redis.call('HLEN', Q .. 'quern:corrupt')
local gone = {Q .. 't:' .. id}
if owns_lock(id, fields[4]) then
    gone[2] = fields[4]
end
redis.call('HSET', Q .. 'quern:corrupt', id, fields[3] or '')
redis.call('ZREM', Q .. 'lease', id)
redis.call('LREM', Q .. 'active', -1, id)
redis.call('DEL', unpack(gone))
return 1
