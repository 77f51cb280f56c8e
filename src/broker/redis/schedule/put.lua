-- put.lua - adds or replaces an entry.
--
-- KEYS: prefix of the queue.
-- ARGV: name, expected revision ("0": no entry, "any"), last_s ("0": now), "1" if no entry may be
--   added, the part of the definition that says when, and the rest of it.
-- Reply: {result, the stored revision ("0": none)}; result: added, replaced, same, exists, changed,
--   gone, full.
-- include: lib_entries.lua
local Q, name = KEYS[1], ARGV[1]
local entries, ticks = Q .. 'quern:entries', Q .. 'quern:ticks'
local texts = redis.call('HMGET', ticks, '', name)
local old = redis.call('HGET', entries, name)
local epoch, revision = entries_head(texts[1])
local row = texts[2] and entry_row(texts[2])
local definition = ARGV[5] .. ARGV[6]
local created_at_ms, old_definition = string.match(old or '', '^(%d+)\n(.*)$')
-- What one of both is missing of counts as no entry that anybody could expect.
local is_there = old or texts[2]
local stored = row and row.revision or '0'
if old_definition == definition and row then
    return {'same', stored}
elseif ARGV[2] == '0' and is_there then
    return {'exists', stored}
elseif ARGV[2] ~= '0' and ARGV[2] ~= 'any' and not is_there then
    return {'gone', '0'}
elseif ARGV[2] ~= '0' and ARGV[2] ~= 'any' and ARGV[2] ~= stored then
    return {'changed', stored}
elseif not is_there and ARGV[4] == '1' then
    return {'full', '0'}
end

local time = redis.call('TIME')
local now_s = tonumber(time[1])
revision = entries_next(revision, time)
if row then
    if not old_definition or string.sub(old_definition, 1, #ARGV[5]) ~= ARGV[5] then
        row.last_s = math.max(row.last_s, now_s)
    end
else
    row = {last_s = ARGV[3] == '0' and now_s or tonumber(ARGV[3]), runs = 0, paused = '0'}
end
row.revision = string.format('%.0f', revision)
created_at_ms = created_at_ms or
    string.format('%.0f', now_s * 1000 + math.floor(tonumber(time[2]) / 1000))
redis.call('HSET', entries, name, created_at_ms .. '\n' .. definition)
redis.call('HSET', ticks, name, entry_text(row), '', entries_head_text(epoch, revision))
return {is_there and 'replaced' or 'added', row.revision}
