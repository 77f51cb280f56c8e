-- claim.lua - from now on this queue takes no tick of an earlier epoch.
-- Allowed when the memory is full: it begins with a removal.
--
-- KEYS: prefix of the queue. ARGV: epoch. Reply: 0; or the later one that there is.
-- include: lib_entries.lua
local ticks = KEYS[1] .. 'quern:ticks'
local epoch, revision = entries_head(redis.call('HGET', ticks, ''))
if epoch > tonumber(ARGV[1]) then
    return epoch
end
redis.call('HDEL', ticks, ' ')
redis.call('HSET', ticks, '', entries_head_text(tonumber(ARGV[1]), revision))
return 0
