-- remove_queue.lua - one bounded step of removing a queue with all its tasks.
--
-- KEYS: prefix of the queue. ARGV: "1" to remove tasks, too; how many at most in this step; then
-- the days whose counters may exist, as "2026-11-20".
--
-- Reply: {"active", how many}: it is in use, {"entries", how many}: schedulers enqueue into it,
-- {"holds", how many}: it has tasks; nothing was changed. {"more", removed entries}: a step is done
-- and the queue is paused; call again. {"done", removed entries}: all is gone, and asynq:queues,
-- which may be on another server, is left to the caller.
--
-- A queue that is removed in several steps is paused before the first task goes, and keeps its name
-- until the last key is gone; so after a failure there is a paused queue, which is still listed.
-- Keys of a wrong type are deleted, whatever they hold.
local Q = KEYS[1]
-- include: lib_lock.lua
local room = tonumber(ARGV[2])

local function is(key, kind)
    return redis.call('TYPE', key).ok == kind
end
local function size(name, kind, command)
    return is(Q .. name, kind) and redis.call(command, Q .. name) or 0
end

local zsets = {'scheduled', 'retry', 'archived', 'completed', 'lease'}
local active = size('active', 'list', 'LLEN')
if active > 0 then
    return {'active', active}
end
local entries = size('quern:entries', 'hash', 'HLEN')
if ARGV[1] ~= '1' and entries > 0 then
    return {'entries', entries}
elseif ARGV[1] ~= '1' then
    local count = size('pending', 'list', 'LLEN') + size('groups', 'set', 'SCARD')
    for i = 1, 4 do
        count = count + size(zsets[i], 'zset', 'ZCARD')
    end
    count = count + size('aggregation_sets', 'zset', 'ZCARD')
    if count > 0 then
        return {'holds', count}
    end
end

-- Redis returns OOM for the first write that takes memory; after this one it no longer does.
redis.call('DEL', Q .. 'quern:due')

local function forget(id)
    local key = Q .. 't:' .. id
    if is(key, 'hash') then
        local lock = redis.call('HGET', key, 'unique_key')
        if owns_lock(id, lock) then
            redis.call('DEL', lock)
        end
    end
    redis.call('DEL', key)
    room = room - 1
end

-- The first `room` tasks of a zset, and whether these were all.
local function empty_zset(key)
    if is(key, 'zset') and room > 0 then
        local ids = redis.call('ZRANGE', key, 0, room - 1)
        for _, id in ipairs(ids) do
            forget(id)
        end
        redis.call('ZREMRANGEBYRANK', key, 0, #ids - 1)
    end
    return not is(key, 'zset')
end
local function empty_list(key)
    if is(key, 'list') and room > 0 then
        for _, id in ipairs(redis.call('RPOP', key, room)) do
            forget(id)
        end
    end
    return not is(key, 'list')
end
local function empty_groups(key)
    if is(key, 'set') and room > 0 then
        for _, group in ipairs(redis.call('SRANDMEMBER', key, room)) do
            if room > 0 and empty_zset(Q .. 'g:' .. group) then
                redis.call('DEL', Q .. 'g:' .. group)
                redis.call('SREM', key, group)
                room = room - 1
            end
        end
    end
    return not is(key, 'set')
end
local function empty_sets(key)
    if is(key, 'zset') and room > 0 then
        for _, set in ipairs(redis.call('ZRANGE', key, 0, room - 1)) do
            local ours = string.sub(set, 1, #Q) == Q
            if room > 0 and (not ours or empty_zset(set)) then
                redis.call('ZREM', key, set)
                room = room - 1
            end
        end
    end
    return not is(key, 'zset')
end

-- What is used of the limits of starts of a type and a key.
local function forget_use(kind, key)
    redis.call('DEL', Q .. 'quern:limit:use:2:' .. kind, Q .. 'quern:limit:use:3:' .. key)
end

-- Deleted tasks.
local function empty_trash(key)
    if is(key, 'zset') and room > 0 then
        local members = redis.call('ZRANGE', key, 0, room - 1)
        for _, member in ipairs(members) do
            redis.call('UNLINK', key .. ':' .. (string.match(member, '^%d+ (.*)$') or ''))
        end
        redis.call('ZREMRANGEBYRANK', key, 0, #members - 1)
        room = room - #members
    end
    return not is(key, 'zset')
end

-- The lanes are an index of tasks that were in `scheduled`.
local function empty_lanes(key)
    if is(key, 'zset') and room > 0 then
        local names = redis.call('ZRANGE', key, 0, room - 1)
        for _, name in ipairs(names) do
            redis.call('UNLINK', Q .. 'quern:lane:' .. name)
            forget_use(string.match(name, '\31(.*)$') or '', string.match(name, '^[^\31]*'))
        end
        redis.call('ZREMRANGEBYRANK', key, 0, #names - 1)
        room = room - #names
    end
    return not is(key, 'zset')
end

-- Last, so that they hold as long as there are tasks.
local function empty_limits(key)
    if is(key, 'hash') and room > 0 then
        for _, field in ipairs(redis.call('HRANDFIELD', key, room)) do
            forget_use(string.match(field, '^2s:(.*)$') or '',
                string.match(field, '^3s:(.*)$') or '')
            redis.call('HDEL', key, field)
            room = room - 1
        end
    end
    return not is(key, 'hash')
end

-- Entries go first, so that no scheduler enqueues any more. Their histories have the queue's tag.
local removed = 0
if entries > 0 then
    for _, name in ipairs(redis.call('HRANDFIELD', Q .. 'quern:entries', room)) do
        redis.call('DEL', Q .. 'quern:ticklog:' .. name,
            string.sub(Q, 1, 6) .. 'scheduler_history:' .. string.sub(Q, 7) .. name)
        redis.call('HDEL', Q .. 'quern:entries', name)
        if is(Q .. 'quern:ticks', 'hash') then
            redis.call('HDEL', Q .. 'quern:ticks', name)
        end
        removed = removed + 1
    end
    room = room - removed
end

local all = removed == entries
all = empty_list(Q .. 'pending') and all
for _, name in ipairs(zsets) do
    all = empty_zset(Q .. name) and all
end
all = empty_groups(Q .. 'groups') and all
all = empty_sets(Q .. 'aggregation_sets') and all
all = empty_lanes(Q .. 'quern:lanes') and all
all = empty_trash(Q .. 'quern:trash') and all
all = all and empty_limits(Q .. 'quern:limit:set')
if not all then
    redis.call('SET', Q .. 'paused', redis.call('TIME')[1], 'NX')
    return {'more', removed}
end
for _, name in ipairs({'pending', 'active', 'lease', 'scheduled', 'retry', 'archived', 'completed',
    'groups', 'aggregation_sets', 'processed', 'failed', 'quern:due', 'quern:meta',
    'quern:workers', 'quern:corrupt', 'quern:charged:0', 'quern:charged:1', 'quern:charged:2',
    'quern:charged:3', 'quern:charged:4', 'quern:skip', 'quern:braked', 'quern:max_pending',
    'quern:entries', 'quern:ticks', 'quern:limit:set', 'quern:limit:use:1', 'quern:limit:runs',
    'quern:lanes', 'quern:lanes:idle', 'quern:trash', 'quern:trash_bytes', 'paused'}) do
    redis.call('DEL', Q .. name)
end
for i = 3, #ARGV do
    redis.call('DEL', Q .. 'processed:' .. ARGV[i], Q .. 'failed:' .. ARGV[i])
end
return {'done', removed}
