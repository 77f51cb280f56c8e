-- set_queue.lua - the settings of a queue.
-- They can be changed when the memory is full: a script that has begun to write may go on.
--
-- KEYS: prefix of the queue. ARGV: max_pending: "" stays as it is, "0" no limit. Reply: 1.
local key = KEYS[1] .. 'quern:max_pending'
redis.pcall('ZREM', KEYS[1] .. 'lease', '')
if ARGV[1] == '0' then
    redis.call('DEL', key)
elseif ARGV[1] ~= '' then
    redis.call('SET', key, ARGV[1])
end
return 1
