-- prune.lua - removes expired tasks from queues.
--
-- KEYS: prefixes of queues. ARGV: 1 how many tasks at most, of all together, 2 the size of a full
-- archive, 3 the age in seconds at which an archived task is removed ("": at no age), 4 what
-- the clock must show, in ms ("": anything): if it is an hour off, none is removed for its age.
-- Reply: {tasks removed, the clock in ms, the error of a queue that is damaged, if there is one: it
-- stops no other}.
--
-- A removed task frees its lock, if that is still its own. If the hash names another state, only
-- the entry is removed. Trimmed ones are counted in quern:meta, unless the value there is not a
-- number.
local Q
local time = redis.call('TIME')
local now_s = tonumber(time[1])
local now_ms = now_s * 1000 + math.floor(tonumber(time[2]) / 1000)
local left = tonumber(ARGV[1])
local trusted = ARGV[3] ~= '' and
    (ARGV[4] == '' or math.abs(now_ms - tonumber(ARGV[4])) <= 3600000)
-- include: lib_due.lua
-- include: lib_level.lua
-- include: lib_lock.lua
-- include: trash/lib_trash.lua
-- include: lib_workers.lua

local function is_elsewhere(container, id, state)
    if not state or state == container then
        return false
    elseif state == 'pending' or state == 'aggregating' then
        return true
    end
    local place = state == 'active' and 'lease' or string.match(state, '^%l+$')
    return place and redis.pcall('ZSCORE', Q .. place, id) -- an error counts, too
end

-- Adds these entries to the keys that will be deleted; only reads. Returns how many are tasks.
local function plan(container, ids, keys)
    local count = 0
    for _, id in ipairs(ids) do
        local hash = Q .. 't:' .. id
        local fields = redis.pcall('HMGET', hash, 'state', 'unique_key')
        if not is_elsewhere(container, id, fields[1]) then
            keys[#keys + 1] = hash
            keys[#keys + 1] = owns_lock(id, fields[2]) and fields[2] or nil
            count = count + (fields[1] and 1 or 0)
        end
    end
    left = left - #ids
    return count
end

-- A random sample of entries: stale ones are rare and harmless.
local function find_stale()
    local stale = {}
    for _, id in ipairs(redis.call('ZRANDMEMBER', Q .. 'quern:due', 20)) do
        if not due_is_valid(Q, id, tonumber(redis.call('ZSCORE', Q .. 'quern:due', id))) then
            stale[#stale + 1] = id
        end
    end
    return stale
end

-- Of some brakes those that are old enough to be forgotten; as HDEL takes them.
local function find_brakes()
    local old, hosts = {}, {}
    local rows = redis.call('HRANDFIELD', Q .. 'quern:meta', 20, 'WITHVALUES')
    for i = 1, #rows, 2 do
        local touched = string.match(rows[i + 1], '^%d+ %d+ %d+ %d+ (%d+) %d+ ')
        if string.sub(rows[i], 1, 2) == 'h:' and touched and
            now_ms - tonumber(touched) > @QN_CHARGE_WINDOW_MS@ then
            old[#old + 1] = rows[i]
            hosts[#hosts + 1] = string.sub(rows[i], 3)
        end
    end
    return old, hosts
end

-- A sample of the index of charged tasks; a level of the wrong type is left to doctor. With the
-- last entry the mark is removed that there is an index.
local function repair_charged()
    local count = 0
    for level = 0, @QN_ALONE_CHARGES@ do
        local key = Q .. 'quern:charged:' .. level
        local ids = redis.pcall('ZRANDMEMBER', key, 10)
        for _, id in ipairs(ids) do
            local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'quern_past')
            if fields[1] ~= 'pending' or deaths_level(fields[2]) ~= level then
                redis.call('ZREM', key, id)
            end
        end
        count = count + redis.call('EXISTS', key)
    end
    if count == 0 then
        redis.call('HDEL', Q .. 'quern:meta', 'charged')
        redis.call('DEL', Q .. 'quern:skip')
    end
end

local function drop(command, key, members)
    if #members > 0 then
        redis.call(command, key, unpack(members))
    end
    return #members
end

-- Those whose retention is over, to the millisecond: the score is the second rounded up, the moment
-- is the last number of quern_past.
local function find_completed()
    local ids = {}
    local rows = redis.call('ZRANGEBYSCORE', Q .. 'completed', '-inf', now_s + 1, 'WITHSCORES',
        'LIMIT', 0, left)
    for i = 1, #rows, 2 do
        local until_ms = tonumber(rows[i + 1]) * 1000
        if until_ms > now_ms then
            local past = redis.pcall('HGET', Q .. 't:' .. rows[i], 'quern_past')
            local exact_ms = type(past) == 'string' and
                tonumber(string.match(past, '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+)') or '')
            until_ms = exact_ms and until_ms - exact_ms < 1000 and exact_ms or until_ms
        end
        if until_ms <= now_ms then
            ids[#ids + 1] = rows[i]
        end
    end
    return ids
end

local function prune()
    local keys = {}
    local completed = find_completed()
    plan('completed', completed, keys)
    local archived = {}
    if trusted and left > 0 then
        archived = redis.call('ZRANGEBYSCORE', Q .. 'archived', '-inf', now_s - tonumber(ARGV[3]),
            'LIMIT', 0, left)
            -- bug TRIM_UNBOUNDED: 'LIMIT', 0, -1)
    end
    local trimmed = plan('archived', archived, keys)
    local kept = redis.call('ZCARD', Q .. 'archived') - #archived
    local surplus = {}
    if kept > tonumber(ARGV[2]) and left > 0 then
        surplus = redis.call('ZRANGE', Q .. 'archived', #archived,
            #archived + math.min(kept - tonumber(ARGV[2]), left) - 1)
    end
    trimmed = trimmed + plan('archived', surplus, keys)
    local brakes, hosts = {}, {}
    if trusted then
        brakes, hosts = find_brakes()
    end
    local charged = redis.call('HGET', Q .. 'quern:meta', 'charged')
    local stale = find_stale()
    local gone = trusted and workers_gone(Q .. 'quern:workers', now_ms) or {}

    redis.call('ZREM', Q .. 'lease', '')
    local removed = drop('ZREM', Q .. 'completed', completed) +
        drop('ZREM', Q .. 'archived', archived) + drop('ZREM', Q .. 'archived', surplus)
    drop('ZREM', Q .. 'quern:due', stale)
    drop('HDEL', Q .. 'quern:workers', gone)
    drop('HDEL', Q .. 'quern:meta', brakes)
    if hosts[1] then
        redis.pcall('HDEL', Q .. 'quern:braked', unpack(hosts))
    end
    if charged then
        repair_charged()
    end
    for i = 1, #keys, 1000 do
        redis.call('DEL', unpack(keys, i, math.min(i + 999, #keys)))
    end
    if trusted and left > 0 then
        local over = trash_expire(Q, now_ms, left)
        left, removed = left - over, removed + over
    end
    if trimmed > 0 then
        redis.pcall('HINCRBY', Q .. 'quern:meta', 'trimmed', trimmed)
    end
    return removed
end

local removed = 0
local failure = nil
for _, key in ipairs(KEYS) do
    Q = key
    local left_before = left
    local ok, result = pcall(prune)
    if ok then
        removed = removed + result
    else
        left = left_before
        failure = type(result) == 'table' and result or redis.error_reply(result)
    end
end
return {removed, string.format('%.0f', now_ms), failure}
