-- doctor_limits.lua - a page of what a queue has for its limits, with findings and their repair:
-- the limits themselves, lanes, and the counted runs. All but the limits are indexes. A page reads
-- all that its findings depend on at once, so none of them needs to be confirmed.
--
-- KEYS: prefix of the queue. ARGV: 1 "1" to repair, 2 what: "set", "lanes", "runs" or "lease",
-- 3 cursor ("" to begin), 4 how many.
-- Reply: {next cursor ("": that was all), how many were read, then for each finding: invariant, id,
-- text}. A cursor of lanes is that of ZSCAN in a lane, a space and the lane.
local Q, repair, size = KEYS[1], ARGV[1] == '1', tonumber(ARGV[4])
-- include: limits/lib_lanes.lua
-- include: limits/lib_holders.lua
-- include: limits/lib_aside.lua
local reply = {'', 0}
local runs_key = Q .. 'quern:limit:runs'
local begin = ARGV[3] == '' and '0' or ARGV[3]

local function report(invariant, id, text)
    reply[#reply + 1] = invariant
    reply[#reply + 1] = id
    reply[#reply + 1] = text
end

-- A page of a key, its members with their values, and the next cursor; nil: it has another type.
local function page_of(command, key, cursor)
    local page = redis.pcall(command, key, cursor, 'COUNT', size)
    if page.err then
        return nil
    end
    reply[2] = reply[2] + #page[2] / 2
    return page[2], page[1]
end
local function after(cursor)
    return cursor == '0' and '' or cursor
end

-- --- Limits ---

local names = {['1'] = 'the limit of the queue', ['2'] = 'the limit of the type ',
    ['3'] = 'the limit of the key '}

-- Of a field that cannot be read: what it is; nil: all is well, or it is not known here.
local function fault(field, value)
    local scope, what, name = string.match(field, '^([123])([rs]):?(.*)$')
    if field == '4' then
        for item in string.gmatch(value .. '\31', '([^\31]*)\31') do
            if not string.match(item, '^%d+ .') then
                return 'a semaphore'
            end
        end
    elseif scope and (scope == '1') == (name == '') then
        local pattern = what == 'r' and '^%d+$' or '^%d+ %d+ %d+$'
        return not string.find(value, pattern) and names[scope] .. string.sub(name, 1, 80) or nil
    end
    return nil
end

local function check_set()
    local fields, cursor = page_of('HSCAN', Q .. 'quern:limit:set', begin)
    for i = 1, #(fields or {}), 2 do
        local what = fault(fields[i], fields[i + 1])
        if what then
            report('I9', '', what .. ' has the value "' .. string.sub(fields[i + 1], 1, 40) ..
                '", which limits nothing: set it again')
            if repair then
                redis.call('HDEL', Q .. 'quern:limit:set', fields[i])
            end
        end
    end
    reply[1] = after(cursor or '0')
end

-- --- Lanes ---

local function words(name)
    local key, kind = string.match(name, '^([^\31]*)\31(.*)$')
    return string.format('the lane of %s and the type %s', key ~= '' and 'the key ' ..
        string.sub(key or name, 1, 80) or 'no key', string.sub(kind or '', 1, 80))
end

-- Returns the next cursor of this lane; '0': it is done.
local function check_lane(name, cursor)
    local key, stale = Q .. 'quern:lane:' .. name, {}
    local rows, more = page_of('ZSCAN', key, cursor)
    if not rows then
        report('I9', '', words(name) .. ' is a ' .. redis.call('TYPE', key).ok ..
            ' and must be a zset')
        stale = {''}
    end
    for i = 1, #(rows or {}), 2 do
        local id = rows[i]
        local f = redis.pcall('HMGET', Q .. 't:' .. id, 'msg', 'state', 'quern_aside')
        local score = f[1] and redis.pcall('ZSCORE', Q .. 'scheduled', id)
        local waits = type(score) == 'string' and aside_lane(f[2], f[3]) == name
        -- bug DOCTOR_LANE_BELIEVED: local waits = f[1]
        if not waits then
            report('I8', id, 'in ' .. words(name) .. ', but it does not wait there')
            stale[#stale + 1] = id
        end
    end
    if repair and stale[1] then
        redis.call(rows and 'ZREM' or 'DEL', key, unpack(rows and stale or {}))
    end
    if redis.call('EXISTS', key) == 0 then
        if not stale[1] then
            report('I8', '', words(name) .. ' has no tasks, but is in quern:lanes')
        end
        if repair then
            redis.call('ZREM', Q .. 'quern:lanes', name)
        end
    end
    return more or '0'
end

-- In the order of their names, which are not moved by what others add and remove.
local function check_lanes()
    local cursor, at = string.match(ARGV[3], '^(%d+) (.*)$')
    local low = at and '[' .. at or '-'
    while reply[2] < size do
        local found = redis.pcall('ZRANGEBYLEX', Q .. 'quern:lanes', low, '+', 'LIMIT', '0', '16')
        if found.err or not found[1] then
            return
        end
        for _, name in ipairs(found) do
            reply[2] = reply[2] + 1
            local more = check_lane(name, name == at and cursor or '0')
            low = '(' .. name
            if more ~= '0' or reply[2] >= size then
                reply[1] = more == '0' and '0 ' .. name .. '\0' or more .. ' ' .. name
                return
            end
        end
    end
end

-- --- Counted runs ---

local function runs(id)
    return redis.call('ZSCORE', Q .. 'lease', id)
end
local function is_counted(id)
    return redis.call('ZLEXCOUNT', runs_key, hold_range('i' .. id)) > 0
end

-- What is left of a run that has ended fills a limit until it is in the way.
local function check_runs()
    local rows, cursor = page_of('ZSCAN', runs_key, begin)
    for i = 1, #(rows or {}), 2 do
        local member = rows[i]
        local id = string.match(member, '^i(.*)\31[^\31]*\31[^\31]*$')
        local held = string.match(member, '^[23][^\31]*\31(.*)$')
        if id and not runs(id) then
            report('I8', id, 'counted as a run by the limits of types and keys, but it ' ..
                'does not run')
            if repair then
                hold_free(Q, {id})
            end
        elseif not id and member ~= '\0' and not (held and (runs(held) or is_counted(held))) and
            redis.call('ZSCORE', runs_key, member) then
            report('I8', held or '', held and 'counted by a limit, but it does not run' or
                'quern:limit:runs has an entry that is no run')
            if repair then
                redis.call('ZREM', runs_key, member)
            end
        end
    end
    reply[1] = after(cursor or '0')
end

-- Runs of ours only, and not while the index is being made.
local function check_lease()
    local whole = redis.pcall('ZSCORE', runs_key, '\0') == '-1'
    local rows, cursor = nil, '0'
    if whole then
        rows, cursor = page_of('ZSCAN', Q .. 'lease', begin)
    end
    for i = 1, #(rows or {}), 2 do
        local id = rows[i]
        local f = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'msg', 'quern_opts',
            'pending_since')
        if f[1] == 'active' and f[2] and f[4] and not is_counted(id) then
            report('I8', id, 'runs, but the limits of types and keys do not count it')
            if repair then
                hold_add(Q, id, lane_type_of(f[2]), lane_key_of(f[3]))
            end
        end
    end
    reply[1] = after(cursor or '0')
end

local checks = {set = check_set, lanes = check_lanes, runs = check_runs, lease = check_lease}
if repair then
    redis.call('ZREM', Q .. 'lease', '') -- for the other writes when memory is full
end
checks[ARGV[2]]()
return reply
