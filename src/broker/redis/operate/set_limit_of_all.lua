-- set_limit_of_all.lua - sets or removes limits of all queues together (lib_limits.lua,
-- lib_gates.lua). The caller then lets set_limit.lua note it in each queue that there is. It works
-- when the memory is full, too: a script that has begun to write may go on.
--
-- KEYS: asynq:quern:limit:set. ARGV: "s", field, value; or "r" and the fields to remove. Reply: how
-- many were set or removed. The fields are those of a queue, but for tasks of any kind that run:
-- that is field '4' (lib_tokens.lua). Field '0': lib_limits.lua.
local key = KEYS[1]
local kind = redis.call('TYPE', key).ok
if kind ~= 'hash' and kind ~= 'none' then
    redis.call('DEL', key)
end
local count, marks = 1, {s = '', t = '', r = ''}
redis.call('HDEL', key, '0')
if ARGV[1] == 's' then
    redis.call('HSET', key, ARGV[2], ARGV[3])
else
    count = redis.call('HDEL', key, unpack(ARGV, 2))
end
for _, field in ipairs(redis.call('HKEYS', key)) do
    if field == '1s' then
        marks.s = 's'
    elseif string.find(field, '^[23][rs]:') then
        marks.t = 't'
        marks.r = string.find(field, '^.r') and 'r' or marks.r
    end
end
local text = marks.s .. marks.t .. marks.r
if text ~= '' then
    redis.call('HSET', key, '0', text)
end
return count
