-- recover.lua - ends the leases of one queue that nobody prolonged, and those of dead workers; mends
-- what is in `active` or `lease` and should not be. It looks at a page of `active`.
--
-- KEYS: prefix of the queue. ARGV: 1 how many leases may be ended, 2 the size of a page, 3 where it
-- begins (a rank in `active`, from the oldest on), 4 the latest that the clock may show, in ms (later:
-- it was turned, and no lease is over; "": any time), then the ids of workers that are dead.
-- Reply: {where the next page begins, 1 if the end was reached, the clock in ms, then for each ended
-- lease: id, cause, 1 if a crash was charged, 1 if it is poison}.
--
-- A task with a token was leased by us: its lease is over at the moment in quern_run, or, where that
-- does not fit the score (somebody mended the lease), at the score. One without is a Go worker's,
-- which may be 30 s late. Without dead workers only leases that may be over are looked at.
--
-- Nothing that works leaves an id in `active` without a lease, since all scripts move both at once.
-- Where one is found it gets a lease, and is treated like all others when that ends. A lease without
-- an id in `active` is ended a minute after its time. An id without a message has no task any more
-- (asynq makes such ghosts when a hash is deleted by hand) and goes.
local Q = KEYS[1]
redis.call('ZREM', Q .. 'lease', '')
-- include: lib_count.lua
-- include: lib_done.lua
-- include: lib_lock.lua
-- include: lib_end.lua
local limit, page, from = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local is_turned = ARGV[4] ~= '' and now_ms > tonumber(ARGV[4])
local dead, dead_ids = {}, {}
for i = 5, #ARGV do
    dead_ids[#dead_ids + 1] = ARGV[i]
    dead[ARGV[i]] = {}
end
local active_size = redis.call('LLEN', Q .. 'active')
if #dead_ids == 0 and redis.call('ZCOUNT', Q .. 'lease', '-inf', now_s + 1) == 0 and
    active_size == redis.call('ZCARD', Q .. 'lease') then
    -- Others pass over keys of the wrong type, so that other queues do not suffer: told here.
    redis.call('LLEN', Q .. 'pending')
    for _, key in ipairs({'scheduled', 'retry', 'quern:due'}) do
        redis.call('ZCARD', Q .. key)
    end
    return {0, 1, whole_number(now_ms)}
end

local function has_message(id)
    local size = redis.pcall('HSTRLEN', T .. id, 'msg')
    return type(size) == 'number' and size > 0
end

-- Whether the task is where its hash says, which is not `active`. One that is not there is treated
-- as if it were active, since here it is found.
local function is_elsewhere(id, state)
    if state == 'pending' then
        return redis.call('LPOS', Q .. 'pending', id, 'RANK', -1)
    elseif state == 'aggregating' then
        return true
    elseif state == 'active' or not state or not string.match(state, '^%l+$') then
        return false
    end
    local score = redis.pcall('ZSCORE', Q .. state, id)
    return type(score) == 'string'
end

-- What is known of a task with a lease.
local function entry_of(id, score)
    local fields = fields_of(id, 'state', 'pending_since', 'quern_run', 'quern_past', 'quern_place')
    local token = fields[2] or nil
    local entry = {id = id, token = token, past = past_read(fields[4]), place = fields[5],
        run = run_read(token and fields[3]), late_s = now_s - score, state = fields[1]}
    local over_ms = score * 1000
    if token and math.ceil(entry.run.until_ms / 1000) == score then
        over_ms = entry.run.until_ms
    end
    entry.is_over = not is_turned and over_ms <= now_ms and
        (token and fields[1] == 'active' or entry.late_s >= 30)
    -- A Go worker leases for 30 s, and its run has started.
    entry.started = not token or entry.run.started
    entry.fence = token and tonumber(string.sub(token, 1, -4)) or (score - 30) * 1000000
    return entry
end

-- Sorts a page. What leaves `active` is marked by its index, so that all of it is removed by one
-- walk along the list.
local over, marks, adopted, stubs = {}, {}, {}, {}
local ending = 0
local function sort_over(entry, list)
    if has_message(entry.id) and not is_elsewhere(entry.id, entry.state) then
        list[#list + 1] = entry
        ending = ending + 1
    else
        leaving[#leaving + 1] = entry.id
        stubs[#stubs + 1] = entry.state == 'active' and T .. entry.id or nil
    end
end
local function sort_entry(index, id, score)
    if not score then
        local state = fields_of(id, 'state')[1]
        local stays = has_message(id) and not is_elsewhere(id, state)
        if stays then
            adopted[#adopted + 1] = now_s + 30
            adopted[#adopted + 1] = id
        else
            marks[#marks + 1] = index
            stubs[#stubs + 1] = state == 'active' and T .. id or nil
        end
        return
    end
    if score > now_s + 1 and #dead_ids == 0 then
        return
    end
    local entry = entry_of(id, score)
    local of_dead = entry.token and entry.state == 'active' and dead[entry.run.worker]
    if of_dead or entry.is_over then
        sort_over(entry, of_dead or over)
        marks[#marks + 1] = index
    end
end
local function sort_page()
    local ids = redis.call('LRANGE', Q .. 'active', -(from + page), -(from + 1))
    local scores = #ids > 0 and redis.call('ZMSCORE', Q .. 'lease', unpack(ids))
    for i = #ids, 1, -1 do
        if ending >= limit then
            return #ids - i
        end
        sort_entry(-(from + #ids - i + 1), ids[i], tonumber(scores[i] or ''))
    end
    return #ids
end

-- Leases without an id in `active`; few, since each costs a walk along the list.
local function find_lost()
    local seen = {}
    for _, id in ipairs(leaving) do
        seen[id] = true
    end
    for _, entry in ipairs(over) do
        seen[entry.id] = true
    end
    local rows = redis.call('ZRANGEBYSCORE', Q .. 'lease', '-inf', now_s - 60, 'WITHSCORES',
        'LIMIT', 0, 10)
    for i = 1, #rows, 2 do
        local id = rows[i]
        if not seen[id] and ending < limit and
            not redis.call('LPOS', Q .. 'active', id, 'RANK', -1) then
            sort_over(entry_of(id, tonumber(rows[i + 1])), over)
        end
    end
end

local reply = {0, 0, whole_number(now_ms)}
local function end_lease(entry, cause, charge)
    leaving[#leaving + 1] = entry.id
    local charged = charge and entry.started
    local poison = plan_crash(entry.id, {past = entry.past, run = entry.run, place = entry.place,
        token = entry.token, fence = entry.fence, charged = charged, cause = cause,
        last = cause == 6 and 'worker died' or 'lease expired'})
    reply[#reply + 1] = entry.id
    reply[#reply + 1] = cause
    reply[#reply + 1] = charged and 1 or 0
    reply[#reply + 1] = poison and 1 or 0
end

-- The death of one worker is one event of the streak, however many runs it had; the most suspect
-- task names it.
local gone = {}
local function end_worker(id)
    local charge = is_chargeable()
    local first, most = nil, -1
    for _, entry in ipairs(dead[id]) do
        if entry.started and entry.past.crashes > most then
            first, most = entry.id, entry.past.crashes
        end
        end_lease(entry, 6, charge)
    end
    local heartbeat, status, owner = string.match(
        redis.call('HGET', Q .. 'quern:workers', id) or '', '^(%S+) (%S+) (.*)$')
    if first and status ~= 'gone' then
        streak_goes_on(first)
        gone[#gone + 1] = id
        gone[#gone + 1] = (heartbeat or '0') .. ' gone ' .. (owner or '')
    end
end

streak_read()
redis.call('HLEN', Q .. 'quern:workers')
if from >= active_size then
    from = 0
end
local looked = sort_page()
local at_end = from + looked >= active_size
if at_end and not is_turned then
    find_lost()
end
for _, id in ipairs(dead_ids) do
    if #dead[id] > 0 then
        end_worker(id)
    end
end
for _, entry in ipairs(over) do
    end_lease(entry, 4, is_chargeable())
    if entry.started then
        streak_goes_on(entry.id)
    end
end
end_write()
for _, index in ipairs(marks) do
    redis.call('LSET', Q .. 'active', index, 'quern:gone')
end
if #marks > 0 then
    redis.call('LREM', Q .. 'active', -#marks, 'quern:gone')
end
if #stubs > 0 then
    redis.call('DEL', unpack(stubs))
end
write_to('ZADD', Q .. 'lease', adopted)
write_to('HSET', Q .. 'quern:workers', gone)
reply[1] = at_end and 0 or from + looked - #marks
reply[2] = at_end and 1 or 0
return reply
