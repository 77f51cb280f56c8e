-- change.lua - removes, pauses or resumes an entry. Its history stays.
-- Allowed when the memory is full: it begins with a removal.
--
-- KEYS: prefix of the queue.
-- ARGV: name, expected revision or "any", what: remove, pause, resume, catch_up, reset.
-- Reply: {result, how many entries are left}; result: done, gone, changed, same (it is paused, or
-- is
--   not), damaged.
-- include: lib_entries.lua
local Q, name, what = KEYS[1], ARGV[1], ARGV[3]
local entries, ticks = Q .. 'quern:entries', Q .. 'quern:ticks'
local texts = redis.call('HMGET', ticks, '', name)
local epoch, revision = entries_head(texts[1])
local text = texts[2]
local left = redis.call('HLEN', entries)
if not text and redis.call('HEXISTS', entries, name) == 0 then
    return {'gone', left}
end
local row = text and entry_row(text)
if ARGV[2] ~= 'any' and (not row or row.revision ~= ARGV[2]) then
    return {'changed', left}
end
if what == 'remove' then
    left = left - redis.call('HDEL', entries, name)
    redis.call('HDEL', ticks, name)
    return {'done', left}
elseif not row then
    return {'damaged', left}
end

local time = redis.call('TIME')
local now_s = tonumber(time[1])
local is_paused = row.paused ~= '0'
if is_paused == (what == 'pause') and what ~= 'reset' then
    return {'same', left}
end
row.paused = '0'
if what == 'pause' then
    row.paused = string.format('%.0f', now_s * 1000 + math.floor(tonumber(time[2]) / 1000))
elseif what == 'resume' then
    row.last_s = math.max(row.last_s, now_s)
elseif what == 'reset' then
    row.last_s = now_s
end
-- A tick that was planned before a pause is refused as paused; one from before its end as changed.
if what ~= 'pause' then
    revision = entries_next(revision, time)
    row.revision = string.format('%.0f', revision)
end
redis.call('HDEL', ticks, ' ')
redis.call('HSET', ticks, name, entry_text(row), '', entries_head_text(epoch, revision))
return {'done', left}
