-- lib_lease.lua - what lease.lua needs where tasks were charged with deaths: who may run in whose
-- company, the solo lock, and the one run at a time of a queue that is braked on the worker's host.
-- Expects lib_deaths.lua and what lease.lua has read; defines the table `rare`.
--
-- Charged tasks stay in pending, where Go sees them. An index finds them: quern:charged:<level>, by
-- their places. Who leaves pending by another hand stays in the index, is found stale there and
-- dropped. Of charged ones at the head that nobody could take, quern:skip says how many there are,
-- "count at_s place id": the greatest of their places, and the id of the last of them, so that a
-- lease begins behind them. It counts for ten seconds, in case somebody put another one among them.
local STALE_MAX, WINDOW, SKIP_S = 16, 128, 10
rare = {taken = 0, solo = nil, solo_out = nil, stale = {}}

local now_s = math.floor(now_ms / 1000)
local starts = tonumber(ARGV[6]) -- how many charged ones may still be taken
local letter, number, slots, held_1, held_2, held_3 =
    string.match(ARGV[10], '^(.)(%d*) (%d+) (%d+) (%d+) (%d+)')
number, slots = tonumber(number) or 0, tonumber(slots)
local company = {tonumber(held_1), tonumber(held_2), tonumber(held_3)}
local me = ARGV[8]

-- --- Isolation: src/task/deaths.c ---

local function level_of(charges)
    return math.min(charges, ALONE_CHARGES)
end
local function is_solo(level)
    return slots > 1 and (level >= ALONE_CHARGES or math.floor(slots / 2 ^ level) <= 1)
end
local function room_of(level)
    local least = math.huge
    for c = 1, slots > 1 and math.min(level, ALONE_CHARGES - 1) or 0 do
        least = math.min(least, math.floor(slots / 2 ^ c) - company[c])
    end
    return least
end
local function take_in(level)
    for c = 1, math.min(level, ALONE_CHARGES - 1) do
        company[c] = company[c] + 1
    end
    starts, rare.taken = starts - 1, rare.taken + 1
end

-- Whether a charged task may run now; counts it if it may.
function rare.admit(charges)
    local level = level_of(tonumber(charges))
    if starts <= 0 or is_solo(level) or room_of(level) <= 0 then
        -- bug SOLO_IN_COMPANY: if starts <= 0 then
        return false
    end
    take_in(level)
    return true
end

-- --- Looking at tasks ---

-- A pending task: its fields and charges; nil where there is none under this id.
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
        place = f[6], charges = number_of(string.match(past, '^%d+')), died_ms = number_of(died)}
end

-- Up to `count` of a level, by place, up to a place. What is found stale is dropped later.
local function of_level(i, level, count, place_max)
    local prefix, tasks = KEYS[i], {}
    local key = prefix .. 'quern:charged:' .. level
    local rows = try('ZRANGEBYSCORE', key, '-inf', place_max or '+inf', 'WITHSCORES', 'LIMIT', '0',
        string.format('%d', count + STALE_MAX))
    for k = 1, #rows, 2 do
        local task = #tasks < count and task_at(prefix, rows[k])
        if task and level_of(task.charges) == level then
            task.score, task.level = tonumber(rows[k + 1]), level
            tasks[#tasks + 1] = task
        elseif task ~= false then
            rare.stale[#rare.stale + 1] = {key, rows[k]}
        end
    end
    return tasks
end

-- The best of some levels by what `is_better` says.
local function best_of(i, wants_level, count, is_better)
    local best = nil
    for level = 1, ALONE_CHARGES do
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

-- --- The brake ---

local brakes = {}
local function brake_of(i)
    local odd = odd_queues and odd_queues[i]
    if odd and odd.brake and not brakes[i] then
        brakes[i] = brake_read(odd.brake)
    end
    return brakes[i]
end
local function is_braked(i)
    local brake = brake_of(i)
    return brake and brake_is_on(brake)
end
local function probe_lives(i)
    local brake = brakes[i]
    if brake.token == '0' then
        return false
    end
    local f = try('HMGET', KEYS[i] .. 't:' .. brake.id, 'state', 'pending_since')
    return f[1] == 'active' and f[2] == brake.token
end
local function probe_is_due(i)
    return not probe_lives(i) and brake_wait_ms(brakes[i]) == 0
end

-- The first uncharged task from one end of pending on; behind what is known to be charged.
local function uncharged_at(i, is_newest)
    local prefix, from = KEYS[i], 0
    for _ = 1, 4 do
        local ids
        if is_newest then
            ids = try('LRANGE', prefix .. 'pending', from, from + WINDOW - 1)
        else
            ids = try('LRANGE', prefix .. 'pending', -from - WINDOW, -from - 1)
        end
        for k = 1, #ids do
            local task = task_at(prefix, is_newest and ids[k] or ids[#ids - k + 1])
            if task and task.charges == 0 then
                return task
            end
        end
        if #ids < WINDOW then
            return nil
        end
        from = from + WINDOW
    end
end

-- Which task is to be the next probe (qn_brake_choice, then the next of these); solo ones on demand.
local function choose_probe(i, with_solo)
    local function wants(level)
        return with_solo or not is_solo(level)
    end
    local choice = brakes[i].probes % 3
    for k = choice, choice + 2 do
        local task
        if k % 3 == 2 then
            task = best_of(i, wants, 32, died_before)
        else
            task = uncharged_at(i, k % 3 == 0)
        end
        if task then
            return task
        end
    end
end

-- --- The solo lock ---

local locks = {}
local function lock_of(i)
    if not locks[i] then
        local text = try('HGET', KEYS[i] .. 'quern:meta', 'solo')
        locks[i] = solo_read(type(text) == 'string' and text or '')
    end
    return locks[i]
end
local function solo_task(i)
    if is_braked(i) then
        return best_of(i, is_solo, 32, died_before)
    end
    return best_of(i, is_solo, 1, is_before)
end
local function may_ask(i)
    local odd = odd_queues and odd_queues[i]
    if queues[i] == false or not odd or not odd.charged or slots <= 1 then
        return false
    end
    local lock = lock_of(i)
    local is_free = lock.owner == '' or lock.owner == me or lock.until_ms <= now_ms or
        lock.until_ms > now_ms + SOLO_MS
    if not is_free or lock.rest > now_ms then
        -- bug REST_FORGOTTEN: if not is_free then
        return false
    elseif is_braked(i) then
        local task = probe_is_due(i) and choose_probe(i, true)
        return task and is_solo(level_of(task.charges))
    end
    return solo_task(i) ~= nil
end
-- ZREM is the write that lets the others happen when memory is out; it changes nothing.
local function put_lock(i)
    try('ZREM', KEYS[i] .. 'lease', '')
    try('HSET', KEYS[i] .. 'quern:meta', 'solo', solo_text(locks[i]))
end

local function drop_stale(prefix)
    if rare.stale[1] then
        try('ZREM', prefix .. 'lease', '')
    end
    for _, entry in ipairs(rare.stale) do
        try('ZREM', entry[1], entry[2])
    end
    rare.stale = {}
end

-- Takes, keeps or returns the lock. Returns true where nothing is to be leased then.
function rare.step(kept)
    if letter == 'a' and not kept then
        for i = 1, queue_count do
            if may_ask(i) then
                local lock = lock_of(i)
                lock.since, lock.until_ms, lock.rest = now_ms, now_ms + SOLO_MS, 0
                lock.owner, rare.solo_out = me, i
                put_lock(i)
                return true
            end
            drop_stale(KEYS[i])
        end
    elseif letter == 'e' then
        local lock = lock_of(number)
        if lock.owner == me then
            solo_return(lock, 0)
            put_lock(number)
        end
    elseif letter == 'k' or letter == 'r' then
        local lock = lock_of(number)
        if lock.owner ~= me then
            try('ZREM', KEYS[number] .. 'lease', '')
            return true
        end
        lock.until_ms = now_ms + SOLO_MS
        rare.solo_out = number
        put_lock(number)
        rare.solo = number
        return letter == 'k' or queues[number] == false or room == 0
    end
    return room == 0
end

-- --- Runs that are not read from the head on ---

-- Adds a task that is somewhere in pending.
local function add(queue, prefix, task)
    local count, held_count = queue.count + 1, queue.held_count + 1
    local name = prefix .. 't:' .. task.id
    local since = string.match(task.past or '', '^%d+ %d+ %d+ %d+ %d+ ([1-9]%d*)') or
        string.match(task.since or '', '^%d+$') or '0'
    queue.ids[count + 4], queue.names[count] = task.id, name
    queue.sinces[count], queue.seen[name] = since_text(since), true
    queue.held[held_count] = task.message
    queue.odd = queue.odd or {}
    queue.odd[count] = {since = since, may_have_run = true, charges = task.charges}
    if task.opts or task.past then
        queue.held[held_count + 1] = 2
        queue.held[held_count + 2] = (task.opts or '') .. ';' .. (task.past or '')
        held_count = held_count + 2
    end
    queue.count, queue.held_count = count, held_count
    queue.out = queue.out or {}
    queue.out[#queue.out + 1] = task.id
end

-- The queue with this one run.
local function only(i, begin, task, is_probe)
    local queue = task and starts > 0 and begin(i, KEYS[i])
    if not queue then
        return false
    end
    take_in(level_of(task.charges))
    add(queue, KEYS[i], task)
    queue.empty, queue.is_probe = true, is_probe
    return queue
end

-- How many at the head are known to be charged, and the greatest of their places.
local function skip_of(prefix)
    local text = try('GET', prefix .. 'quern:skip')
    local count, at_s, place, id =
        string.match(type(text) == 'string' and text or '', '^(%d+) (%d+) (%d+) (.*)$')
    count = number_of(count)
    local age_s = now_s - number_of(at_s)
    if not id or count == 0 or count > 1e6 or age_s < 0 or age_s > SKIP_S then
        return 0, 0
    end
    local last = string.format('%d', -count)
    if try('LINDEX', prefix .. 'pending', last) == id then
        return count, number_of(place), text
    end
    -- Some before it have gone.
    local at = try('LPOS', prefix .. 'pending', id, 'RANK', '-1', 'MAXLEN', string.format('%d', count))
    local size = try('LLEN', prefix .. 'pending')
    if type(at) == 'number' and type(size) == 'number' then
        return size - at, number_of(place)
    end
    return 0, 0
end

-- Of those at the head that are known to be charged, who may run by now.
local function take_known(i, queue, want, place_max)
    local tasks = {}
    for level = 1, ALONE_CHARGES do
        local room = math.min(want, starts, room_of(level))
        if room > 0 and not is_solo(level) then
            for _, task in ipairs(of_level(i, level, room, string.format('%.0f', place_max))) do
                tasks[#tasks + 1] = task
            end
        end
    end
    table.sort(tasks, is_before)
    for _, task in ipairs(tasks) do
        if queue.count < want and rare.admit(task.charges) then
            add(queue, KEYS[i], task)
        end
    end
end

-- What is special in reading this queue: nil: nothing, false: it gives nothing, else the queue with
-- the runs that it gives before its list is read.
function rare.open(i, begin, want)
    if rare.solo then
        local ready = not is_braked(i) or probe_is_due(i)
        return only(i, begin, ready and solo_task(i), is_braked(i))
    elseif is_braked(i) then
        return only(i, begin, probe_is_due(i) and choose_probe(i, false), true)
    end
    local odd = odd_queues and odd_queues[i]
    local skip, place, text = 0, 0, nil
    if odd and odd.charged then
        skip, place, text = skip_of(KEYS[i])
    end
    local queue = skip > 0 and begin(i, KEYS[i])
    if not queue then
        return nil
    end
    queue.skip, queue.skip_place, queue.skip_text = skip, place, text
    take_known(i, queue, want, place)
    return queue
end

-- --- Writing ---

-- Says of each run whether it has started, since not the first ones have; takes the charged out of
-- the index.
function rare.mark(i, queue, marks, token)
    local out, at, k = {'', '', ''}, 4, 0
    while at <= queue.held_count do
        local flags = queue.held[at + 1]
        local is_flagged = type(flags) == 'number'
        local has_extra = is_flagged and flags >= 2
        k = k + 1
        out[#out + 1] = queue.held[at]
        out[#out + 1] = (has_extra and 2 or 0) + (marks[k] and 0 or 1)
        out[#out + 1] = has_extra and queue.held[at + 2] or nil
        at = at + (has_extra and 3 or is_flagged and 2 or 1)
    end
    queue.held, queue.held_count = out, #out
    for k, odd in pairs(queue.odd or {}) do
        local charges = number_of(odd.charges)
        if charges > 0 then
            try('ZREM', KEYS[i] .. 'quern:charged:' .. level_of(charges), queue.ids[k + 4])
        end
    end
    if queue.is_probe then
        local brake = brakes[i]
        brake.token, brake.id = token, queue.ids[5]
        call('HSET', KEYS[i] .. 'quern:meta', brake_field, brake_text(brake))
    end
end

-- What was read leaves pending, but for who was passed over.
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
        local key = prefix .. 'quern:charged:' .. level_of(number_of(one.charges))
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

-- What the next lease should know of this queue.
function rare.close(i, queue)
    local prefix, passed = KEYS[i], queue.passed or {}
    for _, id in ipairs(queue.out or {}) do
        call('LREM', prefix .. 'pending', '-1', id)
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
        -- Not written when it is no news: who sleeps is woken by it.
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

-- --- What is said of the queues ---

local function any_solo(i)
    for level = 1, ALONE_CHARGES do
        local size = is_solo(level) and try('ZCARD', KEYS[i] .. 'quern:charged:' .. level)
        if type(size) == 'number' and size > 0 then
            return true
        end
    end
    return false
end

-- In how many ms something may be had that may not be now; 0: nothing waits for that.
local function wait_ms(i, odd)
    local size = odd.paused == 0 and try('LLEN', KEYS[i] .. 'pending')
    if type(size) ~= 'number' or size == 0 then
        return 0
    end
    local wait = 0
    if is_braked(i) and not probe_lives(i) then
        wait = brake_wait_ms(brakes[i])
    end
    if not is_braked(i) and odd.charged and any_solo(i) then
        wait = math.max(lock_of(i).rest - now_ms, 0)
    end
    return wait
end

-- The rest of the head, behind `early`: of which queue the solo lock is held, and what is to be said
-- of queues.
function rare.head(early)
    local held = rare.solo_out or 0
    for i = 1, rare.solo_out and 0 or queue_count do
        local asked = letter == 'a' or number == i and letter ~= 'e'
        if asked and lock_of(i).owner == me then
            held = i
            break
        end
    end
    local texts = {early .. ' ' .. held}
    for i = 1, queue_count do
        local odd = odd_queues and odd_queues[i]
        if odd then
            local brake = brake_of(i)
            texts[#texts + 1] = string.format(' %d %d %.0f %d %.0f', i, odd.paused,
                brake and brake.streak or 0, is_braked(i) and 1 or 0, wait_ms(i, odd))
        end
    end
    return table.concat(texts)
end
