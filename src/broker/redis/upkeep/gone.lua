-- gone.lua - notes in one queue that a worker is gone, and how many runs it had started in all its
-- queues; the first number noted is right, since later ones may count only the remaining runs.
--
-- KEYS: prefix of the queue. ARGV: worker id, how many. Reply: how many, as it is noted now; -1:
-- the queue has no record of it.
local key, id = KEYS[1] .. 'quern:workers', ARGV[1]
redis.call('ZREM', KEYS[1] .. 'lease', '')
local record = redis.call('HGET', key, id)
local heartbeat, status, rest = string.match(record or '', '^(%S+) (%S+) (.*)$')
if not rest then
    return -1
end
local noted = string.match(status, '^gone%-(%d+)$') or string.match(status, '^paid%-(%d+)$')
if not noted and status ~= 'draining' then -- else all that it had here has ended (forget.lua)
    redis.call('HSET', key, id, heartbeat .. ' gone-' .. ARGV[2] .. ' ' .. rest)
end
return tonumber(noted or ARGV[2])
