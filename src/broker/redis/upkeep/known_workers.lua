-- known_workers.lua - a page of the records of the workers of a queue. Writes nothing.
--
-- KEYS: prefix of the queue. ARGV: where HSCAN goes on, how many. Reply: {where it goes on (0: at
-- the end), then id and record of each}. A record far larger than ours is left out.
local SIZE_MAX = 4096
local page = redis.call('HSCAN', KEYS[1] .. 'quern:workers', ARGV[1], 'COUNT', ARGV[2])
local reply, rows = {page[1]}, page[2]
for i = 1, #rows, 2 do
    if #rows[i] <= SIZE_MAX and #rows[i + 1] <= SIZE_MAX then
        reply[#reply + 1] = rows[i]
        reply[#reply + 1] = rows[i + 1]
    end
end
return reply
