-- load.lua - reads entries: definition and row as they belong together.
--
-- KEYS: prefix of the queue. ARGV: how many bytes of definitions at most, names.
-- Reply: for each name, in their order, definition and row, nil where there is none; fewer than
--   names where the bytes are used up, but at least one.
local Q = KEYS[1]
local entries, ticks = Q .. 'quern:entries', Q .. 'quern:ticks'
local left = tonumber(ARGV[1])
local reply = {}
for i = 2, #ARGV do
    local definition = redis.pcall('HGET', entries, ARGV[i])
    definition = type(definition) == 'string' and definition
    left = left - (definition and #definition or 0)
    if left < 0 and i > 2 then
        break
    end
    reply[#reply + 1] = definition
    reply[#reply + 1] = redis.call('HGET', ticks, ARGV[i])
end
return reply
