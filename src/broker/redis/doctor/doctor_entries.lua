-- doctor_entries.lua - the entries of schedulers in one queue: whether definitions and rows belong
-- together, and their repair.
--
-- KEYS: prefix of the queue. ARGV: "1" to repair.
-- Reply: {how many definitions there are, then for each finding: name, invariant, text, 1 if it was
-- repaired}. Of more entries than schedulers take it looks at that many; the next check goes on.
-- include: lib_entries.lua
local Q, repair = KEYS[1], ARGV[1] == '1'
local LIMIT = 20000
local entries, ticks = Q .. 'quern:entries', Q .. 'quern:ticks'
local time = redis.call('TIME')
local now_s = tonumber(time[1])
local reply = {0}

local function kind(key)
    return redis.call('TYPE', key).ok
end
local function report(name, invariant, text, repaired)
    reply[#reply + 1] = name
    reply[#reply + 1] = invariant
    reply[#reply + 1] = text
    reply[#reply + 1] = repaired and 1 or 0
end
local function names(key)
    if redis.call('HLEN', key) > LIMIT then
        return redis.call('HRANDFIELD', key, LIMIT)
    end
    return redis.call('HKEYS', key)
end

-- Where a key has the wrong type, that is reported elsewhere (I9).
local has_entries, has_ticks = kind(entries), kind(ticks)
if (has_entries ~= 'hash' and has_entries ~= 'none') or
    (has_ticks ~= 'hash' and has_ticks ~= 'none') then
    return reply
end

local head = redis.call('HGET', ticks, '')
local epoch, revision = entries_head(head)
if head and revision == 0 then
    report('', 'I10', 'the row of the queue in quern:ticks has the value ' ..
        string.sub(head, 1, 40), repair)
end
revision = entries_next(revision, time)
if repair and head then
    redis.call('HSET', ticks, '', entries_head_text(epoch, revision))
end

reply[1] = redis.call('HLEN', entries)
for _, name in ipairs(names(entries)) do
    local text = redis.call('HGET', ticks, name)
    local row = text and entry_row(text)
    if not row then
        report(name, 'I10', (text and 'its row in quern:ticks has the value ' ..
            string.sub(text, 1, 40) or 'it has no row in quern:ticks') ..
            (repair and ': it starts over' or ''), repair)
        if repair then
            redis.call('HSET', ticks, name, entry_text({
                revision = string.format('%.0f', revision), last_s = now_s, runs = 0,
                paused = '0'}), '', entries_head_text(epoch, revision))
        end
    elseif row.last_s > now_s + 86400 then
        report(name, 'I8', string.format(
            'its last tick lies %.0f days ahead of the clock: until then there is none',
            math.floor((row.last_s - now_s) / 86400)), false)
    end
end
for _, name in ipairs(names(ticks)) do
    if name ~= '' and redis.call('HEXISTS', entries, name) == 0 then
        report(name, 'I10', 'it has a row in quern:ticks, but no definition', repair)
        if repair then
            redis.call('HDEL', ticks, name)
        end
    end
end
return reply
