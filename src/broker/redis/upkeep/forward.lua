-- forward.lua - moves due tasks to the tail of pending, in the order in which they are due.
--
-- KEYS: prefixes of queues. ARGV: 1 how many for all of them together, at most 1000.
-- Reply: {moved, microseconds until the next is due (0 or less: it is due), or until lanes are to
-- be looked at again, "": none is known}.
--
-- A task is due at its moment in quern:due if that is valid, else at its score. If its hash is
-- gone, or the task runs, only its entries are removed. A task that waits in a lane is put ahead
-- again, long before it is due, and one with a limit_key goes to its lane. A task whose hash names
-- a group goes to that. Charged tasks are put into their index, too (lib_end.lua). A queue with a
-- key of the wrong type is skipped, and reported by recover.lua; any other error is returned when
-- all queues are done.
local time = redis.call('TIME')
local now_s = tonumber(time[1])
local now_ms = now_s * 1000 + math.floor(tonumber(time[2]) / 1000)
-- include: lib_due.lua
-- include: lib_level.lua
-- include: limits/lib_lanes.lua
-- include: limits/lib_aside.lua

-- The due tasks, not yet sorted: {id, due_ms}. Then the stale entries of the index.
local function find(Q, limit)
    local found, stale, seen = {}, {}, {}
    local rows = redis.call('ZRANGEBYSCORE', Q .. 'quern:due', '-inf', now_ms, 'WITHSCORES',
        'LIMIT', 0, limit)
    for i = 1, #rows, 2 do
        local due_ms = tonumber(rows[i + 1])
        if due_is_valid(Q, rows[i], due_ms) then
            found[#found + 1] = {rows[i], due_ms}
            seen[rows[i]] = true
        else
            stale[#stale + 1] = rows[i]
        end
    end
    for _, container in ipairs({'scheduled', 'retry'}) do
        rows = redis.call('ZRANGEBYSCORE', Q .. container, '-inf', now_s, 'WITHSCORES', 'LIMIT',
            0, limit)
        for i = 1, #rows, 2 do
            if not seen[rows[i]] then
                seen[rows[i]] = true
                found[#found + 1] = {rows[i], due_moment_ms(Q, rows[i], tonumber(rows[i + 1]))}
            end
        end
    end
    return found, stale
end

-- Where each goes: pending, a group, its lane, or nowhere. Reads all keys that will be written.
local function choose(Q, found, limit)
    local pending, grouped, ghosts, ids, ahead = {}, {}, {}, {}, {}
    redis.call('LLEN', Q .. 'pending')
    redis.call('SCARD', Q .. 'groups')
    for i = 1, math.min(#found, limit) do
        local id = found[i][1]
        local hash = Q .. 't:' .. id
        local fields = redis.pcall('HMGET', hash, 'state', 'group', 'quern_past', 'quern_aside',
            'quern_opts', 'pending_since')
        ids[i] = id
        if fields.err or redis.call('HSTRLEN', hash, 'msg') == 0 then
            ghosts[#ghosts + 1] = not fields.err and hash or nil -- else it is left to doctor
        elseif is_in_lane(Q, id, fields[1], fields[4]) then
            -- bug ASIDE_FOR_EVER: elseif fields[4] and fields[1] == 'scheduled' then
            ahead[#ahead + 1] = id
        elseif fields[1] ~= 'active' or not redis.call('ZSCORE', Q .. 'lease', id) then
            if fields[2] and fields[2] ~= '' then
                redis.call('ZCARD', Q .. 'g:' .. fields[2])
                grouped[#grouped + 1] = {id, fields[2]}
            else
                pending[#pending + 1] = found[i]
                found[i].level = deaths_level(fields[3])
                found[i].key = lane_key_of(fields[5])
                -- Its lane is gone: it waits since then.
                found[i].since = fields[4] and fields[1] == 'scheduled' and fields[6]
            end
        end
    end
    return pending, grouped, ghosts, ids, ahead
end

-- Puts tasks of lanes ahead again. If quern:meta was lost, leases look there from now on.
local function put_ahead(Q, ids)
    local rows = {}
    for i, id in ipairs(ids) do
        rows[2 * i - 1], rows[2 * i] = string.format('%.0f', now_s + LANE_AHEAD_S), id
    end
    for i = 1, #rows, 2000 do
        redis.call('ZADD', Q .. 'scheduled', unpack(rows, i, math.min(i + 1999, #rows)))
    end
    local limits = rows[1] and redis.call('HGET', Q .. 'quern:meta', 'limits')
    if rows[1] and limits ~= '2' and limits ~= '3' then
        redis.call('HSET', Q .. 'quern:meta', 'limits', '3')
        redis.call('DEL', Q .. 'quern:lanes:idle')
    end
end

-- Those of them that are due within half of that time, so that Go's forwarder, which looks for due
-- tasks as often as we do, does not get them. Once a second, and so many; where there are more,
-- others each time, as delayed tasks may stand among them: the number is a prime.
local AHEAD_MAX = 3989
local function renew_ahead(Q)
    local moment = string.format('%.0f', now_s)
    if redis.call('HGET', Q .. 'quern:meta', 'ahead_at') == moment then
        return
    end
    local last = string.format('%.0f', now_s + LANE_AHEAD_S / 2)
    local first = redis.call('ZCOUNT', Q .. 'scheduled', '-inf', moment)
    local count = redis.call('ZCOUNT', Q .. 'scheduled', '(' .. moment, last)
    if count > AHEAD_MAX then
        first = first + now_s * AHEAD_MAX % (count - AHEAD_MAX + 1)
    end
    local ids = redis.call('ZRANGE', Q .. 'scheduled', string.format('%.0f', first),
        string.format('%.0f', first + math.min(count, AHEAD_MAX) - 1))
    local ahead = {}
    for _, id in ipairs(count > 0 and ids or {}) do
        local f = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'quern_aside')
        if is_in_lane(Q, id, f[1], f[2]) then
            ahead[#ahead + 1] = id
        end
    end
    redis.call('ZREM', Q .. 'lease', '')
    redis.call('HSET', Q .. 'quern:meta', 'ahead_at', moment)
    put_ahead(Q, ahead)
end

-- Returns when it is to be called again.
local function look_at_lanes(Q, head_s)
    if head_s <= now_s + LANE_AHEAD_S / 2 then
        renew_ahead(Q)
        local head = redis.call('ZRANGE', Q .. 'scheduled', 0, 0, 'WITHSCORES')
        head_s = tonumber(head[2] or head_s)
    end
    return lanes_due_ms(head_s, now_s)
end

-- This is optional: an index of the wrong type stops nothing.
local function note_charged(Q, entry, i)
    redis.pcall('ZADD', Q .. 'quern:charged:' .. entry.level,
        string.format('%.0f', now_s * 1000000 + time[2] + i), entry[1])
    redis.pcall('HSET', Q .. 'quern:meta', 'charged', '1')
end

local function move(Q, pending, grouped)
    local ids, places = {}, {}
    for i, entry in ipairs(pending) do
        local since_ms = entry[2] > 0 and entry[2] < 9e12 and entry[2] or now_ms
        local since = entry.since or string.format('%.0f%06d', since_ms, i)
        redis.call('HSET', Q .. 't:' .. entry[1], 'state', 'pending', 'pending_since', since)
        if entry.key ~= '' and not entry.level then
            local message = redis.call('HGET', Q .. 't:' .. entry[1], 'msg')
            lane_put(Q, entry[1], entry.key .. '\31' .. lane_type_of(message),
                lane_next_place(places, Q, now_ms * 1000), now_s)
        else
            ids[#ids + 1] = entry[1]
        end
        if entry.level then
            note_charged(Q, entry, i)
        end
    end
    if places.last then
        lanes_note(Q, places)
    end
    if #ids > 0 then
        redis.call('LPUSH', Q .. 'pending', unpack(ids))
    end
    for _, entry in ipairs(grouped) do
        redis.call('HSET', Q .. 't:' .. entry[1], 'state', 'aggregating')
        redis.call('ZADD', Q .. 'g:' .. entry[2], now_s, entry[1])
        redis.call('SADD', Q .. 'groups', entry[2])
    end
end

-- The groups to which a Go server has moved tasks of ours: it does not list their names.
local function groups_of(Q, stale)
    local names = {}
    for _, id in ipairs(stale) do
        local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'group')
        if fields[1] == 'aggregating' and fields[2] and
            type(redis.pcall('ZSCORE', Q .. 'g:' .. fields[2], id)) == 'string' then
            names[#names + 1] = fields[2]
        end
    end
    return names
end

-- Returns how many were moved, and how many were read.
local function forward(Q, limit)
    local found, stale = find(Q, limit)
    if #found + #stale == 0 then
        return 0, 0
    end
    table.sort(found, function(a, b) return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1]) end)
    local pending, grouped, ghosts, ids, ahead = choose(Q, found, limit)
    local groups = groups_of(Q, stale)
    redis.call('ZREM', Q .. 'lease', '')
    if #stale > 0 then
        redis.call('ZREM', Q .. 'quern:due', unpack(stale))
    end
    if #groups > 0 then
        redis.call('SADD', Q .. 'groups', unpack(groups))
    end
    if #ids > 0 then
        redis.call('ZREM', Q .. 'scheduled', unpack(ids))
        redis.call('ZREM', Q .. 'retry', unpack(ids))
        redis.call('ZREM', Q .. 'quern:due', unpack(ids))
    end
    if #ghosts > 0 then
        redis.call('DEL', unpack(ghosts))
    end
    put_ahead(Q, ahead)
    move(Q, pending, grouped)
    return #pending + #grouped, #ids
end

-- Mostly no queue has any task that could be due: one command shows that for all of them.
local function has_delayed(queues)
    local names = {}
    for _, Q in ipairs(queues) do
        names[#names + 1] = Q .. 'scheduled'
        names[#names + 1] = Q .. 'retry'
        names[#names + 1] = Q .. 'quern:due'
    end
    return redis.call('EXISTS', unpack(names)) > 0
end
if not has_delayed(KEYS) then
    return {0, ''}
end

local left = tonumber(ARGV[1])
local moved = 0
local next_ms = math.huge
local failure = nil
for _, Q in ipairs(KEYS) do
    local ok, problem = pcall(function()
        if #KEYS > 1 and not has_delayed({Q}) then
            return
        end
        if left > 0 then
            local count, looked = forward(Q, left)
            moved = moved + count
            left = left - looked
        end
        local heads = {}
        local due_ms = next_due_ms(Q, heads)
        if heads.scheduled and redis.call('EXISTS', Q .. 'quern:lanes') == 1 then
            -- bug ASIDE_RENEWED_LATE: if false then
            due_ms = math.min(due_ms, look_at_lanes(Q, heads.scheduled))
        end
        next_ms = math.min(next_ms, due_ms)
    end)
    if not ok then
        problem = type(problem) == 'table' and problem or redis.error_reply(problem)
        failure = not string.find(problem.err, 'WRONGTYPE', 1, true) and problem or failure
    end
end
if failure then
    return failure
end
if next_ms == math.huge then
    return {moved, ''}
end
return {moved, string.format('%.0f', math.max(next_ms, 0) * 1000 - now_s * 1e6 - time[2])}
