-- lib_limits.lua - the limits of a queue, and what is used of them, by the rules of
-- src/task/limit.c. Included where `limits` in quern:meta or quern:limit:set shows that there are
-- any, behind lib_tokens.lua. What is garbage, or of the wrong type, costs its own limit only.
--
-- quern:limit:set is a hash: '1r' -> 'count': how many tasks of the queue may run; '1s' -> 'count
-- period_ms burst': how many may start; '4': its semaphores (lib_tokens.lua); those of types and
-- keys: lib_gates.lua. quern:limit:use:1 is what is used of a limit of starts:
-- 'period_ms bucket at_ms debt clear_at_ms', then the slots of a window, the present one first. It
-- expires when nothing counts any more.
--
-- asynq:quern:limit:set and asynq:quern:limit:use:... are the same of all queues together. Field
-- '0' tells each queue which of them there are, beside the one in '4': 's' one of starts of all
-- tasks, 't' some of types or keys, 'r' some of these that count runs.
local SLOTS = @QN_LIMIT_SLOTS@

local function whole(text, least, most)
    local number = #text <= 16 and tonumber(text) or most
    return math.max(least, math.min(number, most))
end

-- --- Windows ---

-- How many slots a window can touch.
local function slot_count(limit)
    return math.ceil(limit.period_ms / limit.slot_ms) + 1
end
local function advance_window(limit, now_ms)
    local slot_ms, slots = limit.slot_ms, limit.slots
    local passed = math.floor(now_ms / slot_ms) - math.floor(limit.at_ms / slot_ms)
    limit.at_ms = now_ms - now_ms % slot_ms
    if passed > 0 then
        for i = SLOTS + 1, 1, -1 do
            slots[i] = slots[i - passed] or 0
        end
    end
end
local function window_used(limit)
    local used = 0
    for i = 1, slot_count(limit) do
        used = used + limit.slots[i]
    end
    return used
end
local function window_wait_ms(limit, now_ms, used_max)
    local used, age, count = window_used(limit), slot_count(limit), slot_count(limit)
    while used > used_max and age > 0 do
        used = used - limit.slots[age]
        age = age - 1
    end
    return age == count and 0 or limit.at_ms + (count - age) * limit.slot_ms - now_ms
end

-- --- Buckets ---

local function advance_bucket(limit, now_ms)
    local passed_ms = now_ms - limit.at_ms
    limit.at_ms = now_ms
    limit.debt = math.min(limit.debt, limit.burst * limit.period_ms)
    if passed_ms > limit.debt / limit.count then
        limit.debt = 0
    elseif passed_ms > 0 then
        limit.debt = limit.debt - passed_ms * limit.count
    end
    if limit.debt == 0 then
        limit.clear_at_ms = now_ms
    end
end

-- --- Both ---

local function use_read(limit, text, now_ms)
    local next_number = string.gmatch(text, '%d+')
    local function number()
        return whole(next_number() or '0', 0, 9e15)
    end
    local period_ms, bucket = number(), number()
    limit.at_ms, limit.debt, limit.clear_at_ms, limit.slots = now_ms, 0, 0, {}
    local counts = period_ms == limit.period_ms and bucket == (limit.burst > 0 and 1 or 0)
    if counts then
        limit.at_ms, limit.debt, limit.clear_at_ms = number(), number(), number()
    end
    for i = 1, SLOTS + 1 do
        limit.slots[i] = counts and math.min(number(), @QN_LIMIT_COUNT_MAX@) or 0
    end
    -- After the clock was turned back it must be written, or it would be as old tomorrow.
    limit.changed = limit.at_ms > now_ms
end

-- The limit of starts whose use is at `key`, brought to now; nil: there is none.
local function starts_read(text, now_ms, key)
    local count, period_ms, burst = string.match(text or '', '^(%d+) (%d+) (%d+)$')
    if not count then
        return nil
    end
    local limit = {count = whole(count, 1, @QN_LIMIT_COUNT_MAX@),
        period_ms = whole(period_ms, 1, @QN_LIMIT_PERIOD_MS_MAX@),
        burst = whole(burst, 0, @QN_LIMIT_COUNT_MAX@), key = key}
    limit.slot_ms = math.ceil(limit.period_ms / SLOTS)
    local use = redis.pcall('GET', limit.key)
    use_read(limit, type(use) == 'string' and use or '', now_ms)
    if limit.burst > 0 then
        advance_bucket(limit, now_ms)
    else
        advance_window(limit, now_ms)
    end
    return limit
end

local function starts_used(limit)
    return limit.burst > 0 and math.ceil(limit.debt / limit.period_ms) or window_used(limit)
end
local function starts_room(limit)
    if limit.burst > 0 then
        return math.floor((limit.burst * limit.period_ms - limit.debt) / limit.period_ms)
    end
    return math.max(limit.count - window_used(limit), 0)
end
local function starts_wait_ms(limit, now_ms)
    if limit.burst == 0 then
        return window_wait_ms(limit, now_ms, limit.count - 1)
    end
    local over = limit.debt - (limit.burst - 1) * limit.period_ms
    return math.max(math.ceil(over / limit.count), 0)
end
local function starts_take(limit, count)
    if limit.burst > 0 then
        limit.debt = limit.debt + count * limit.period_ms
    else
        limit.slots[1] = limit.slots[1] + count
    end
    limit.changed = limit.changed or count > 0
end
local function starts_give_back(limit, now_ms, taken_at_ms)
    if limit.burst > 0 then
        if taken_at_ms >= limit.clear_at_ms and limit.debt >= limit.period_ms then
            limit.debt, limit.changed = limit.debt - limit.period_ms, true
        end
        return
    end
    local slot_ms = limit.slot_ms
    local age = math.floor(now_ms / slot_ms) - math.floor(taken_at_ms / slot_ms)
    if (limit.slots[age + 1] or 0) > 0 then
        limit.slots[age + 1], limit.changed = limit.slots[age + 1] - 1, true
    end
end

-- Expects that Redis allows the write when memory is full: one that changes nothing came before.
local function starts_write(limit, now_ms)
    local last_ms = limit.burst > 0 and math.ceil(limit.debt / limit.count) or
        window_wait_ms(limit, now_ms, 0)
    local texts, bucket = {}, limit.burst > 0 and 1 or 0
    for i = 1, bucket == 1 and 0 or SLOTS + 1 do
        texts[i] = string.format(' %d', limit.slots[i])
    end
    local text = string.format('%.0f %d %.0f %.0f %.0f', limit.period_ms, bucket,
        limit.at_ms, limit.debt, limit.clear_at_ms) .. table.concat(texts)
    redis.pcall('SET', limit.key, text, 'PX', string.format('%.0f', math.max(last_ms, 1)))
    limit.changed = false
end

-- The limit of starts of all queues. `shared` keeps it for the other queues of a call.
local function starts_of_all(Q, now_ms, shared)
    if shared.starts == nil then
        local key = string.sub(Q, 1, 6) .. 'quern:limit:'
        local text = redis.pcall('HGET', key .. 'set', '1s')
        shared.starts = type(text) == 'string' and starts_read(text, now_ms, key .. 'use:1') or
            false
    end
    return shared.starts or nil
end

-- The limits of the queue: {runs = how many may run, running = how many do, starts, starts_of_all,
-- rates = both of these as a list, semaphores}; nil: none. And whether there are any of types or
-- keys of all queues.
local function limits_read(Q, now_ms, shared)
    local f = redis.pcall('HMGET', Q .. 'quern:limit:set', '1r', '1s', '4', '0')
    local runs = type(f[1]) == 'string' and string.match(f[1], '^%d+$')
    local starts = not f.err and starts_read(f[2], now_ms, Q .. 'quern:limit:use:1')
    local semaphores, marks = tokens_read(f[3], math.floor(now_ms / 1000)), f[4] or ''
    local all = string.find(marks, 's', 1, true) and starts_of_all(Q, now_ms, shared)
    local has_gates = string.find(marks, 't', 1, true) ~= nil
    if not runs and not starts and not semaphores[1] and not all then
        return nil, has_gates
    end
    local running, rates = runs and redis.pcall('LLEN', Q .. 'active'), {starts or nil}
    rates[#rates + 1] = all
    return {runs = runs and whole(runs, 0, @QN_LIMIT_COUNT_MAX@), starts = starts,
        running = type(running) == 'number' and running or 0, semaphores = semaphores,
        starts_of_all = all, rates = rates}, has_gates
end

-- How many more may be leased.
local function limits_room(limits)
    local runs = limits.runs
    -- bug LIMIT_OFF_BY_ONE: local runs = limits.runs and limits.runs + 1
    local room = runs and math.max(runs - limits.running, 0) or math.huge
    for _, semaphore in ipairs(limits.semaphores) do
        room = math.min(room, math.max(semaphore.count - semaphore.used, 0))
    end
    for _, starts in ipairs(limits.rates) do
        room = math.min(room, starts_room(starts))
    end
    return room
end
