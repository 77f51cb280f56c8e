-- lib_charged.lua - the charged tasks of a queue when lease.lua leases: which may run together,
-- and where they are. Expects lib_level.lua, lib_deaths.lua and what lease.lua has read; begins the
-- table `rare`, which lib_lease.lua continues.
--
-- Charged tasks stay in pending, where Go finds them. An index finds them: quern:charged:<level>
-- (lib_level.lua), by their places. A task that Go or an operator took out of pending stays in the
-- index until it is found stale there and dropped. quern:skip is the number of tasks at the head
-- that are charged ones that no worker could take, "count at_s place id" (the greatest of their
-- places, the id of the last of them), so that a lease begins behind them. It counts for ten
-- seconds, in case another task was put among them.
local STALE_MAX, WINDOW, SKIP_S = 16, 128, 10
rare = {taken = 0, solo = nil, solo_out = nil, stale = {}, level_of = deaths_level}

local now_s = math.floor(now_ms / 1000)
local starts = tonumber(ARGV[6]) -- how many charged ones may still be taken
local letter, number, slots, held_1, held_2, held_3 =
    string.match(ARGV[10], '^(.)(%d*) (%d+) (%d+) (%d+) (%d+)')
number, slots = tonumber(number) or 0, tonumber(slots)
local company = {tonumber(held_1), tonumber(held_2), tonumber(held_3)}
local me = ARGV[8]

-- --- Isolation: src/task/deaths.c ---

local function is_solo(level)
    return slots > 1 and (level >= @QN_ALONE_CHARGES@ or math.floor(slots / 2 ^ level) <= 1)
end
local function room_of(level)
    local least = math.huge
    for c = 1, slots > 1 and math.min(level, @QN_ALONE_CHARGES@ - 1) or 0 do
        least = math.min(least, math.floor(slots / 2 ^ c) - company[c])
    end
    return least
end
local function take_in(level)
    for c = 1, math.min(level, @QN_ALONE_CHARGES@ - 1) do
        company[c] = company[c] + 1
    end
    starts, rare.taken = starts - 1, rare.taken + 1
end

-- Whether a charged task of this level may run now; counts it if it may.
function rare.admit(level)
    if starts <= 0 or is_solo(level) or room_of(level) <= 0 then
        -- bug SOLO_IN_COMPANY: if starts <= 0 then
        return false
    end
    take_in(level)
    return true
end

-- --- Reading tasks ---

-- A pending task: its fields and, if it is charged, its level; nil where there is none under this
-- id.
local function task_at(prefix, id)
    local f = try('HMGET', prefix .. 't:' .. id, 'msg', 'state', 'pending_since', 'quern_opts',
        'quern_past', 'quern_place')
    local message, state = f[1], f[2]
    if not message or state ~= 'pending' and (not state or is_elsewhere(prefix, id, state)) then
        return nil
    end
    local past = f[5] or ''
    local died = string.match(past, '^%d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ (%d+)')
    return {id = id, message = message, state = state, since = f[3], opts = f[4], past = f[5],
        place = f[6], level = deaths_level(past), died_ms = number_of(died)}
end

-- Up to `count` of a level, by place, up to a place. Stale entries are dropped later.
local function of_level(i, level, count, place_max)
    local prefix, tasks = KEYS[i], {}
    local key = prefix .. 'quern:charged:' .. level
    local rows = try('ZRANGEBYSCORE', key, '-inf', place_max or '+inf', 'WITHSCORES', 'LIMIT', '0',
        string.format('%d', count + STALE_MAX))
    for k = 1, #rows, 2 do
        local task = #tasks < count and task_at(prefix, rows[k])
        if task and lanes and not lanes.admits(i, task.message, task.opts) then
            task = false -- it has to wait for a limit
        end
        if task and task.level == level then
            task.score = tonumber(rows[k + 1])
            tasks[#tasks + 1] = task
        elseif task ~= false then
            rare.stale[#rare.stale + 1] = {key, rows[k]}
        end
    end
    return tasks
end

-- The best of some levels, compared by `is_better`.
local function best_of(i, wants_level, count, is_better)
    local best = nil
    for level = 0, @QN_ALONE_CHARGES@ do
        for _, task in ipairs(wants_level(level) and of_level(i, level, count) or {}) do
            if not best or is_better(task, best) then
                best = task
            end
        end
    end
    return best
end
local function is_before(a, b)
    return a.score < b.score
end
local function died_before(a, b)
    return a.died_ms < b.died_ms or a.died_ms == b.died_ms and a.score < b.score
end

-- --- Runs that are not read from the head on ---

-- Adds a task that is somewhere in pending, or at the head of a lane.
local function add(queue, prefix, task)
    local count, held_count = queue.count + 1, queue.held_count + 1
    local name = prefix .. 't:' .. task.id
    local since = string.match(task.past or '', '^%d+ %d+ %d+ %d+ %d+ ([1-9]%d*)') or
        string.match(task.since or '', '^%d+$') or '0'
    queue.ids[count + 4], queue.names[count] = task.id, name
    queue.sinces[count], queue.seen[name] = since_text(since), true
    queue.held[held_count] = task.message
    queue.odd = queue.odd or {}
    queue.odd[count] = {since = since, may_have_run = true, is_put_by = true, level = task.level,
        opts = task.opts}
    if task.opts or task.past then
        queue.held[held_count + 1] = 2
        queue.held[held_count + 2] = (task.opts or '') .. ';' .. (task.past or '')
        held_count = held_count + 2
    end
    queue.count, queue.held_count = count, held_count
    if lanes then
        lanes.take(queue.ids[3], task.id, task.message, task.opts)
    end
    if task.lane then
        lanes.leave(queue.ids[3], task.lane)
        return
    end
    queue.out = queue.out or {}
    queue.out[#queue.out + 1] = task.id
end

-- How many at the head are known to be charged, and the greatest of their places.
local function skip_of(prefix, age_max_s)
    local text = try('GET', prefix .. 'quern:skip')
    local count, at_s, place, id =
        string.match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%d+) (.*)$')
    count = number_of(count)
    local age_s = now_s - number_of(at_s)
    if not id or count == 0 or count > 1e6 or age_s < 0 or age_s > (age_max_s or SKIP_S) then
        return 0, 0
    end
    local last = string.format('%d', -count)
    if try('LINDEX', prefix .. 'pending', last) == id then
        return count, number_of(place), text
    end
    -- Some before it have gone.
    local at = try('LPOS', prefix .. 'pending', id, 'RANK', '-1', 'MAXLEN',
        string.format('%d', count))
    local size = try('LLEN', prefix .. 'pending')
    if type(at) == 'number' and type(size) == 'number' then
        return size - at, number_of(place)
    end
    return 0, 0
end

-- Takes those charged tasks at the head that may run now.
local function take_known(i, queue, want, place_max)
    local tasks = {}
    for level = 0, @QN_ALONE_CHARGES@ do
        local room = math.min(want, starts, room_of(level))
        if room > 0 and not is_solo(level) then
            for _, task in ipairs(of_level(i, level, room, string.format('%.0f', place_max))) do
                tasks[#tasks + 1] = task
            end
        end
    end
    table.sort(tasks, is_before)
    for _, task in ipairs(tasks) do
        -- of_level asked for each of them alone.
        local fits = not lanes or lanes.admits(i, task.message, task.opts)
        if queue.count < want and fits and rare.admit(task.level) then
            add(queue, KEYS[i], task)
        end
    end
end

-- --- Writing ---

local function drop_stale(prefix)
    if rare.stale[1] then
        try('ZREM', prefix .. 'lease', '')
    end
    for _, entry in ipairs(rare.stale) do
        try('ZREM', entry[1], entry[2])
    end
    rare.stale = {}
end

-- The tasks that were read leave pending, except those that were passed over.
function rare.cut(prefix, queue)
    local stays, passed = {}, queue.passed or {}
    if queue.skip == 0 then
        for k = #passed, 1, -1 do
            stays[#stays + 1] = passed[k].at < queue.cut and passed[k].id or nil
        end
        call('LTRIM', prefix .. 'pending', '0', -queue.cut - 1)
        if stays[1] then
            call('RPUSH', prefix .. 'pending', unpack(stays))
        end
        return
    end
    for _, one in ipairs(passed) do
        stays[one.at] = true
    end
    local count = 0
    for at = queue.skip + 1, queue.cut do
        if not stays[at] then
            call('LSET', prefix .. 'pending', -at, 'quern:gone')
            count = count + 1
        end
    end
    call('LREM', prefix .. 'pending', -count, 'quern:gone')
end

-- Puts those that were passed over into the index; returns the greatest of their places.
local function index_passed(prefix, passed)
    local greatest = 0
    for _, one in ipairs(passed) do
        local key = prefix .. 'quern:charged:' .. (one.level or 0) -- dropped there
        local score = try('ZSCORE', key, one.id)
        if type(score) ~= 'string' then
            local place = try('HGET', prefix .. 't:' .. one.id, 'quern_place')
            local since_us = string.sub(one.since or '', 1, -4)
            score = string.match(type(place) == 'string' and place or '', '^%d+$') or
                string.match(since_us, '^%d+$') or '0'
            try('ZADD', key, score, one.id)
        end
        greatest = math.max(greatest, number_of(score))
    end
    return greatest
end

-- Data about this queue for the next lease.
function rare.close(i, queue)
    local prefix, passed = KEYS[i], queue.passed or {}
    for _, id in ipairs(queue.out or {}) do
        -- From the end at which it is: the newest is a probe, too, and a list may be long.
        local is_newest = call('LINDEX', prefix .. 'pending', '0') == id
        call('LREM', prefix .. 'pending', is_newest and '1' or '-1', id)
    end
    drop_stale(prefix)
    local odd = odd_queues and odd_queues[i]
    if queue.is_probe or rare.solo or not (odd and odd.charged) and not passed[1] then
        return
    end
    local place = math.max(index_passed(prefix, passed), queue.skip_place or 0)
    if passed[1] and not (odd and odd.charged) then
        call('HSET', prefix .. 'quern:meta', 'charged', '1')
    end
    local skip = queue.skip - #(queue.out or {}) + #passed
    local last = skip > 0 and try('LINDEX', prefix .. 'pending', string.format('%d', -skip))
    if type(last) == 'string' then
        -- Written only when it has changed, since that wakes sleeping workers.
        local _, at_s = string.match(queue.skip_text or '', '^(%d+) (%d+)')
        local text = string.format('%d %.0f %.0f ', skip, number_of(at_s), place) .. last
        if text ~= queue.skip_text then
            local since_s = queue.skip > 0 and at_s and number_of(at_s) or now_s
            try('SET', prefix .. 'quern:skip',
                string.format('%d %.0f %.0f ', skip, since_s, place) .. last)
        end
    elseif odd and odd.charged then
        try('DEL', prefix .. 'quern:skip')
    end
end

