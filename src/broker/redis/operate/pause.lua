-- pause.lua - pauses or resumes a queue, as asynq does.
-- A queue can be paused when the memory is full: a script that has begun to write may go on.
--
-- KEYS: prefix of the queue. ARGV: "1" to pause, "0" to resume. Reply: 1; 0: nothing to change.
local key = KEYS[1] .. 'paused'
if (redis.call('EXISTS', key) == 1) == (ARGV[1] == '1') then
    return 0
end
redis.pcall('ZREM', KEYS[1] .. 'lease', '')
if ARGV[1] == '1' then
    redis.call('SET', key, redis.call('TIME')[1])
else
    redis.call('DEL', key)
end
return 1
