-- doctor_queue.lua - the checks of a queue as a whole, with repairs by one write each.
--
-- KEYS: prefix of the queue. ARGV: 1 "1" to repair, 2 the largest token seen in active, without its
-- last three digits ("0": none), 3 how many groups follow, then their names, then dates, today
-- first.
-- Reply: {facts, then for each finding: invariant, text, 1 if it was repaired}; facts: pending,
-- aggregating, leases that have expired, tasks that are due, completed past retention, archived,
-- messages in quarantine, how many keys of limits there are. Only those late by two seconds count
-- (Go's leases: 32; completed: 60).
local Q = KEYS[1]
local repair = ARGV[1] == '1'
local DAY_KEPT_S = @QN_HISTORY_DAYS@ * 86400
local time = redis.call('TIME')
local now_s = tonumber(time[1])
local reply = {{}}

local function report(invariant, text, repaired)
    reply[#reply + 1] = invariant
    reply[#reply + 1] = text
    reply[#reply + 1] = repaired and 1 or 0
end

-- --- Types ---

local types = {pending = 'list', active = 'list', lease = 'zset', scheduled = 'zset',
    retry = 'zset',
    archived = 'zset', completed = 'zset', groups = 'set', aggregation_sets = 'zset',
    processed = 'string', failed = 'string', paused = 'string', ['quern:due'] = 'zset',
    ['quern:meta'] = 'hash', ['quern:workers'] = 'hash', ['quern:corrupt'] = 'hash',
    ['quern:charged:0'] = 'zset', ['quern:charged:1'] = 'zset', ['quern:charged:2'] = 'zset',
    ['quern:charged:3'] = 'zset', ['quern:charged:4'] = 'zset', ['quern:skip'] = 'string',
    ['quern:braked'] = 'hash',
    ['quern:entries'] = 'hash', ['quern:ticks'] = 'hash', ['quern:max_pending'] = 'string',
    ['quern:limit:set'] = 'hash', ['quern:limit:use:1'] = 'string', ['quern:limit:runs'] = 'zset',
    ['quern:lanes'] = 'zset', ['quern:lanes:idle'] = 'string',
    ['quern:trash'] = 'zset', ['quern:trash_bytes'] = 'string'}
-- Made again by those who use them.
local indexes = {['quern:limit:runs'] = true, ['quern:lanes'] = true, ['quern:lanes:idle'] = true}
local damaged = {}
for i = 4, 3 + ARGV[3] do
    types['g:' .. ARGV[i]] = 'zset'
end
for i = 4 + ARGV[3], #ARGV do
    types['processed:' .. ARGV[i]], types['failed:' .. ARGV[i]] = 'string', 'string'
end
for name, wanted in pairs(types) do
    local kind = redis.call('TYPE', Q .. name).ok
    if kind ~= 'none' and kind ~= wanted then
        local is_index = repair and indexes[name]
        damaged[name] = not is_index
        report('I9', string.format('%s is a %s and must be a %s', name, kind, wanted), is_index)
        if is_index then
            redis.call('DEL', Q .. name)
        end
    end
end
local function ask(name, command, ...)
    return not damaged[name] and redis.call(command, Q .. name, ...) or 0
end

-- --- Counters ---

-- A counter that is not a number of 64 bits starts over, else counting would fail.
local function number(name)
    local text = not damaged[name] and redis.call('GET', Q .. name) or '0'
    if string.find(text, '^-?%d+$') and math.abs(tonumber(text)) <= 9223372036854774784 then
        return tonumber(text)
    end
    report('I5', 'the counter ' .. name .. ' has the value ' .. string.sub(text, 1, 40), repair)
    if repair then
        redis.call('SET', Q .. name, '0', 'KEEPTTL')
    end
    return 0
end
local function raise(name, from, to)
    if repair and to > from then
        redis.call('INCRBY', Q .. name, string.format('%.0f', to - from))
    end
end

local days_processed, days_failed = 0, 0
for i = 4 + ARGV[3], #ARGV do
    local processed, failed = number('processed:' .. ARGV[i]), number('failed:' .. ARGV[i])
    if failed > processed and not damaged['processed:' .. ARGV[i]] then
        report('I5', string.format('on day %s %.0f failed of %.0f processed', ARGV[i], failed,
            processed), repair)
        raise('processed:' .. ARGV[i], processed, failed)
        processed = failed
    end
    for _, name in ipairs({'processed:' .. ARGV[i], 'failed:' .. ARGV[i]}) do
        if redis.call('TTL', Q .. name) == -1 then
            report('I5', 'the counter ' .. name .. ' never expires', repair)
            if repair then
                redis.call('EXPIRE', Q .. name, DAY_KEPT_S)
            end
        end
    end
    days_processed = days_processed + processed
    days_failed = days_failed + failed
end
local processed, failed = number('processed'), number('failed')
if not damaged.processed and not damaged.failed and
    (failed > processed or processed < days_processed or failed < days_failed) then
    report('I5', string.format('%.0f failed of %.0f processed in all; the days sum to %.0f of %.0f',
        failed, processed, days_failed, days_processed), repair)
    raise('failed', failed, days_failed)
    raise('processed', processed, math.max(days_processed, failed, days_failed))
end
local trimmed = ask('quern:meta', 'HGET', 'trimmed')
if not string.find(trimmed, '^%d+$') then
    report('I5', 'the number of trimmed tasks has the value ' .. string.sub(trimmed, 1, 40), repair)
    if repair then
        redis.call('HDEL', Q .. 'quern:meta', 'trimmed')
    end
end

-- --- The data for leases and ends of runs ---

-- If it is garbage, the last fence that was given is unknown, but it was before now.
local fence = ask('quern:meta', 'HGET', 'fence')
local is_fence = string.find(fence, '^%d+$') and tonumber(fence) <= 9e15
if not damaged['quern:meta'] and (not is_fence or tonumber(fence) < tonumber(ARGV[2])) then
    report('I7', string.format('the last fence has the value %s, ', string.sub(fence, 1, 40)) ..
        (is_fence and 'but ' .. ARGV[2] .. ' was given' or 'which is none'), repair)
    local now = string.format('%s%06d', time[1], time[2])
    if repair then
        redis.call('HSET', Q .. 'quern:meta', 'fence',
            (is_fence or tonumber(ARGV[2]) > tonumber(now)) and ARGV[2] or now)
    end
end

-- Brakes and the solo lock (lib_deaths.lua); garbage there counts as none.
local function check_record(field, what, text, pattern)
    if not string.find(text, pattern) or #text > 1000 then
        report('I9', what .. ' has the value ' .. string.sub(text, 1, 40), repair)
        if repair then
            redis.call('HDEL', Q .. 'quern:meta', field)
        end
    end
end
local meta = damaged['quern:meta'] and {} or
    redis.call('HRANDFIELD', Q .. 'quern:meta', 1000, 'WITHVALUES')
for i = 1, #meta, 2 do
    local host = string.match(meta[i], '^h:(.*)$')
    if host then
        check_record(meta[i], 'the brake on host ' .. string.sub(host, 1, 40), meta[i + 1],
            '^%d+ %d+ %d+ %d+ %d+ %d+ .*$')
    elseif meta[i] == 'solo' then
        check_record(meta[i], 'the solo lock', meta[i + 1], '^%d+ %d+ %d+ .*$')
    end
end

-- Leases look at limits and lanes only if `limits` is there (lib_limits.lua).
local function check_limits()
    local has = ask('quern:meta', 'HGET', 'limits')
    local types, any = redis.call('EXISTS', Q .. 'quern:lanes') == 1, false
    local page = ask('quern:limit:set', 'HSCAN', '0', 'COUNT', 1000)
    for i = 1, #(page ~= 0 and page[2] or {}), 2 do
        types, any = types or string.find(page[2][i], '^[23]') ~= nil, true
    end
    local wanted = types and '2' or any and '1' or '0'
    local known = string.match(has, '^[123]$') or 0
    if damaged['quern:meta'] or tonumber(known) >= tonumber(wanted) then
        return
    end
    report('I9', 'it has limits, or tasks that wait aside, but quern:meta says ' ..
        (known == 0 and 'nothing' or 'no more than ' .. known) ..
        ' of them: no lease looks at them', repair)
    if repair then
        redis.call('HSET', Q .. 'quern:meta', 'limits', wanted)
        redis.call('DEL', Q .. 'quern:lanes:idle')
    end
end
check_limits()

-- --- Groups ---

-- A set that is being aggregated, or was when its aggregator died, is named <group>:<its own id>;
-- the tasks in it know their group. Where the set or the group has the wrong type, both are left
-- alone.
local function set_of(name)
    local first = not damaged['g:' .. name] and redis.call('ZRANGE', Q .. 'g:' .. name, 0, 0)[1]
    local group = first and redis.pcall('HGET', Q .. 't:' .. first, 'group')
    return type(group) == 'string' and string.sub(name, 1, #group + 1) == group .. ':' and group
end
local function merge(set, group)
    redis.call('ZREM', Q .. 'aggregation_sets', set)
    if redis.call('EXISTS', set) == 1 then
        redis.call('ZUNIONSTORE', Q .. 'g:' .. group, 2, Q .. 'g:' .. group, set, 'AGGREGATE',
            'MIN')
        redis.call('SADD', Q .. 'groups', group)
        redis.call('DEL', set)
    end
end

local aggregating = 0
local function check_group(name)
    local key = Q .. 'g:' .. name
    local size = redis.call('ZCARD', key)
    if size == 0 or redis.call('ZSCORE', Q .. 'aggregation_sets', key) then
        return
    end
    local group = set_of(name)
    aggregating = aggregating + size
    if group then
        local merges = repair and not damaged['g:' .. group]
        report('I6', string.format('the set %s of the group %s is not in aggregation_sets', name,
            group), merges)
        if merges then
            merge(key, group)
        end
    elseif redis.call('SISMEMBER', Q .. 'groups', name) == 0 then
        report('I6', string.format('the group %s has %d %s, but is not in groups', name, size,
            size == 1 and 'task' or 'tasks'), repair)
        if repair then
            redis.call('SADD', Q .. 'groups', name)
        end
    end
end
if not damaged.groups and not damaged.aggregation_sets then
    for i = 4, 3 + ARGV[3] do
        if not damaged['g:' .. ARGV[i]] then
            check_group(ARGV[i])
        end
    end
    local over = {}
    for _, set in ipairs(redis.call('ZRANGEBYSCORE', Q .. 'aggregation_sets', '-inf', now_s - 300,
        'LIMIT', 0, 100)) do
        local name = string.sub(set, #Q + 3)
        local group = set_of(name) or string.match(name, '^(.*):[^:]*$')
        if string.sub(set, 1, #Q + 2) ~= Q .. 'g:' or not group then
            over[#over + 1] = {set, nil}
        elseif not damaged['g:' .. name] and not damaged['g:' .. group] then
            over[#over + 1] = {set, group}
        end
    end
    if #over > 0 then
        report('I8', #over .. (#over == 1 and
            ' aggregation set has expired, and its tasks are not back in their group' or
            ' aggregation sets have expired, and their tasks are not back in their groups'), repair)
    end
    for _, entry in ipairs(repair and over or {}) do
        if entry[2] then
            merge(entry[1], entry[2])
        else
            redis.call('ZREM', Q .. 'aggregation_sets', entry[1])
        end
    end
end

-- --- Late tasks ---

local lapsed = 0
for _, id in ipairs(damaged.lease and {} or redis.call('ZRANGEBYSCORE', Q .. 'lease', '-inf',
    now_s - 2, 'LIMIT', 0, 1000)) do
    local ours = redis.pcall('HGET', Q .. 't:' .. id, 'pending_since')
    if type(ours) == 'string' or redis.call('ZSCORE', Q .. 'lease', id) + 32 <= now_s then
        lapsed = lapsed + 1
    end
end
reply[1] = {ask('pending', 'LLEN'), aggregating, lapsed,
    ask('scheduled', 'ZCOUNT', '-inf', now_s - 2) + ask('retry', 'ZCOUNT', '-inf', now_s - 2),
    ask('completed', 'ZCOUNT', '-inf', now_s - 60), ask('archived', 'ZCARD'),
    ask('quern:corrupt', 'HLEN'),
    redis.call('EXISTS', Q .. 'quern:limit:set', Q .. 'quern:lanes', Q .. 'quern:limit:runs')}
return reply
