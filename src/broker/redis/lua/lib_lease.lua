-- lib_lease.lua - the parts of lease.lua for tasks that were charged with deaths: the solo lock,
-- and the one run at a time of a queue that is braked on the worker's host. Expects
-- lib_charged.lua.

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

-- These were found to be charged. Tasks that Go put into pending get into the index only now.
local function note_found(prefix, passed)
    try('ZREM', prefix .. 'lease', '') -- for the other writes when memory is full
    local place = index_passed(prefix, passed)
    try('HSET', prefix .. 'quern:meta', 'charged', '1')
    return place
end

-- This many at the head were found to be charged: the next search, and all leases, begin behind.
local function note_skip(i, count, place, passed)
    local prefix = KEYS[i]
    local last = try('LINDEX', prefix .. 'pending', string.format('%d', -count))
    place = math.max(place, note_found(prefix, passed))
    if type(last) == 'string' then
        try('SET', prefix .. 'quern:skip',
            string.format('%d %.0f %.0f ', count, now_s, place) .. last)
    end
end

-- The first uncharged task from one end of pending on. If many charged ones are at the head,
-- each search continues where the one before ended, unless that was too long ago.
local SEARCH_S = 120
local function uncharged_at(i, is_newest)
    local prefix, from, place, passed = KEYS[i], 0, 0, {}
    if not is_newest then
        from, place = skip_of(prefix, SEARCH_S)
    end
    for _ = 1, 4 do
        local ids
        if is_newest then
            ids = try('LRANGE', prefix .. 'pending', from, from + WINDOW - 1)
        else
            ids = try('LRANGE', prefix .. 'pending', -from - WINDOW, -from - 1)
        end
        for k = 1, #ids do
            local task = task_at(prefix, is_newest and ids[k] or ids[#ids - k + 1])
            if task and not task.level and
                (not lanes or lanes.admits(i, task.message, task.opts)) then
                return task
            end
            passed[#passed + 1] = task
        end
        if #ids < WINDOW then
            if not is_newest and passed[1] then
                note_found(prefix, passed)
            end
            return nil
        end
        from = from + WINDOW
    end
    if not is_newest then
        note_skip(i, from, place, passed)
    end
end

-- Which task is to be the next probe (qn_brake_choice, then the next of these).
local function choose_probe(i, with_solo)
    local function wants(level)
        return with_solo or not is_solo(level) and room_of(level) > 0
    end
    local choice = brakes[i].probes % 3
    for k = choice, choice + 2 do
        local task
        if k % 3 == 2 then
            task = best_of(i, wants, 32, died_before)
        else
            task = uncharged_at(i, k % 3 == 0) or lanes and lanes.probe(i)
        end
        if task then
            return task
        end
    end
    -- The charged came first, but those passed since then may be new in the index.
    return choice == 2 and best_of(i, wants, 32, died_before) or nil
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
    if queues[i] == false or not odd or not odd.charged or slots <= 1 or
        limits and limits.want(i, 1) == 0 then
        return false
    end
    local lock = lock_of(i)
    local is_free = lock.owner == '' or lock.owner == me or lock.until_ms <= now_ms or
        lock.until_ms > now_ms + @QN_SOLO_MS@
    if not is_free or lock.rest > now_ms then
        -- bug REST_FORGOTTEN: if not is_free then
        return false
    elseif is_braked(i) then
        local task = probe_is_due(i) and choose_probe(i, true)
        return task and task.level and is_solo(task.level)
    end
    return solo_task(i) ~= nil
end
-- After this ZREM, which changes nothing, Redis allows the other writes when memory is full.
local function put_lock(i)
    try('ZREM', KEYS[i] .. 'lease', '')
    try('HSET', KEYS[i] .. 'quern:meta', 'solo', solo_text(locks[i]))
end

-- The worker has no lock by its own records. A lock that it has nevertheless was given in a reply
-- that it never received, and would keep all others waiting until it ends.
local function return_forgotten(i)
    local odd = odd_queues and odd_queues[i]
    local lock = odd and odd.charged and lock_of(i)
    if lock and lock.owner == me then
        -- bug LOCK_UNKNOWN_KEPT: if false then
        solo_return(lock, 0)
        put_lock(i)
    end
end

-- Takes, keeps or returns the lock. Returns true if nothing is to be leased then.
function rare.step(kept)
    rare.solo_out = not kept and 0 or nil
    if letter == 'a' and not kept then
        for i = 1, queue_count do
            if rare.solo_out == 0 and may_ask(i) then
                local lock = lock_of(i)
                lock.since, lock.until_ms, lock.rest = now_ms, now_ms + @QN_SOLO_MS@, 0
                lock.owner, rare.solo_out = me, i
                put_lock(i)
            else
                return_forgotten(i)
            end
            drop_stale(KEYS[i])
        end
        if rare.solo_out > 0 then
            return true
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
        solo_keep(lock)
        rare.solo_out = number
        put_lock(number)
        rare.solo = number
        return letter == 'k' or queues[number] == false or room == 0
    end
    return room == 0
end

-- --- Reading and writing ---

-- The queue with this one run.
local function only(i, begin, task, is_probe)
    local queue = task and starts > 0 and begin(i, KEYS[i])
    if not queue then
        drop_stale(KEYS[i]) -- else they may hide all others from the next call
        return false
    end
    take_in(task.level or 0)
    add(queue, KEYS[i], task)
    queue.empty, queue.is_probe = true, is_probe
    return queue
end

-- How this queue is read: nil: as usual; false: not at all; else the queue with the runs that are
-- leased before its list is read.
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

-- Marks for each run whether it has started, since the started ones are not the first; removes the
-- charged ones from the index.
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
        if odd.level then
            try('ZREM', KEYS[i] .. 'quern:charged:' .. odd.level, queue.ids[k + 4])
        end
    end
    if queue.is_probe then
        local brake = brakes[i]
        brake.token, brake.id = token, queue.ids[5]
        call('HSET', KEYS[i] .. 'quern:meta', brake_field, brake_text(brake))
    end
end

-- --- The part of the reply about the queues ---

local function any_solo(i)
    for level = 1, @QN_ALONE_CHARGES@ do
        local size = is_solo(level) and try('ZCARD', KEYS[i] .. 'quern:charged:' .. level)
        if type(size) == 'number' and size > 0 then
            return true
        end
    end
    return false
end

-- In how many ms a task may be leased that cannot be now; 0: no task waits for that.
local function wait_ms(i, odd)
    local size = odd.paused == 0 and try('LLEN', KEYS[i] .. 'pending')
    if size == 0 and lanes and lanes.of[i] then
        size = try('ZCARD', KEYS[i] .. 'quern:lanes')
    end
    if type(size) ~= 'number' or size == 0 then
        return 0
    end
    if is_braked(i) then
        local lives = probe_lives(i)
        local wait = lives and 0 or brake_wait_ms(brakes[i])
        if lives or wait > 0 then
            return wait
        end
    end
    -- A probe that is due and was not leased may be a task that must be alone.
    return odd.charged and any_solo(i) and math.max(lock_of(i).rest - now_ms, 0) or 0
end

-- The rest of the head, behind `early`: of which queue the solo lock is held (for a replay that is
-- looked up), and the data about queues.
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
            local brake, wait = brake_of(i), wait_ms(i, odd)
            local limit_wait, lane_wait = limits and limits.finish(i) or 0,
                lanes and lanes.wait_ms(i) or 0
            if limit_wait > 0 and (wait == 0 or limit_wait < wait) then
                wait = limit_wait
            end
            if lane_wait > 0 and (wait == 0 or lane_wait < wait) then
                wait = lane_wait
            end
            texts[#texts + 1] = string.format(' %d %d %.0f %d %.0f', i, odd.paused,
                brake and brake.streak or 0, is_braked(i) and 1 or 0, wait)
        end
    end
    return table.concat(texts)
end
