-- limits.lua - the limits of a queue with their present use. Writes nothing.
--
-- KEYS: prefix of the queue, or what precedes all of them, for the limits of all queues. Reply: for
-- each limit its scope (1 queue, 2 type, 3 key, 4 semaphore), name, count, period in ms (0: of
-- tasks that run), burst, and how many run, have started, or hold a token. By scope and name, those
-- of running tasks first. Of each type or key by itself no use is counted.
local Q = KEYS[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- include: limits/lib_tokens.lua
-- include: limits/lib_limits.lua
-- include: limits/lib_lanes.lua
-- include: limits/lib_holders.lua
local rows, fields = {}, redis.pcall('HGETALL', Q .. 'quern:limit:set')

local of_all = Q == string.sub(Q, 1, 6)

local function add(scope, name, ...)
    rows[#rows + 1] = {scope, name, ...}
end
-- The runs of a queue by type and key, where no lease has counted them yet. Of very many the first.
local known, left = {}, 1024
local function count_runs(prefix)
    local counts = {}
    for _, id in ipairs(left > 0 and redis.pcall('ZRANGE', prefix .. 'lease', 0, left - 1) or {}) do
        local f = redis.pcall('HMGET', prefix .. 't:' .. id, 'state', 'msg', 'quern_opts')
        left = left - 1
        if f[1] == 'active' and f[2] then
            for _, name in ipairs({'2' .. lane_type_of(f[2]), '3' .. lane_key_of(f[3])}) do
                counts[name] = (counts[name] or 0) + 1
            end
        end
    end
    return counts
end

local function running(scope, name)
    local count = 0
    for _, prefix in ipairs(of_all and queue_prefixes() or {Q}) do
        if redis.pcall('ZSCORE', prefix .. 'quern:limit:runs', '\0') == '-1' then
            count = count + hold_count(prefix, scope, name)
        else
            known[prefix] = known[prefix] or count_runs(prefix)
            count = count + (known[prefix][scope .. name] or 0)
        end
    end
    return count
end
for i = 1, #fields, 2 do -- none if it is of the wrong type
    local field, value = fields[i], fields[i + 1]
    local scope, what, name = string.match(field, '^([23])([rs]):(.+)$')
    if scope and what == 'r' and string.match(value, '^%d+$') then
        add(tonumber(scope), name, whole(value, 0, @QN_LIMIT_COUNT_MAX@), 0, 0,
            name ~= '*' and running(scope, name) or 0)
    elseif scope and what == 's' then
        local starts = starts_read(value, now_ms, Q .. 'quern:limit:use:' .. scope .. ':' .. name)
        if starts then
            add(tonumber(scope), name, starts.count, starts.period_ms, starts.burst,
                name ~= '*' and starts_used(starts) or 0)
        end
    end
end
local limits = limits_read(Q, now_ms, {})
if limits and limits.runs then
    add(1, '', limits.runs, 0, 0, limits.running)
end
if limits and limits.starts then
    local starts = limits.starts
    add(1, '', starts.count, starts.period_ms, starts.burst, starts_used(starts))
end
for _, semaphore in ipairs(limits and limits.semaphores or {}) do
    if semaphore.key then
        add(4, semaphore.name, semaphore.count, 0, 0, semaphore.used)
    elseif of_all then
        add(1, '', semaphore.count, 0, 0, semaphore.used)
    end
end
table.sort(rows, function(a, b)
    for k = 1, 2 do
        if a[k] ~= b[k] then
            return a[k] < b[k]
        end
    end
    return a[4] < b[4]
end)
local reply = {}
for _, row in ipairs(rows) do
    for k = 1, 6 do
        reply[#reply + 1] = row[k]
    end
end
return reply
