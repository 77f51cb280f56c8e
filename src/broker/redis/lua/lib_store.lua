-- lib_store.lua - stores new tasks in one queue, each whole or not at all.
--
-- A batch has: Q, the prefix of the queue; names, the keys of the tasks; ids and messages: behind
-- which place of ARGV these are; rows: the place of the first row of a task that is more than a
-- pending one (index, state, at_ms, lock, lock_ms, group, options, as enqueue.lua has them);
-- results: 'o' stored, 'd' its lock is held, 'c' its id exists, 'f' the queue is full, 'i' left out
-- and 'r' has replaced the one that holds its lock; a task that has a result before store_read is
-- left out; now_s and now_us, of TIME, now_us with six digits; policies: of lib_replace.lua,
-- without which each duplicate is a 'd'. After store_read, holders has the ids of tasks that hold
-- locks, for 'd', 'i' and 'r'.
--
-- store_read reads all that store_write will write, so that nothing fails after the first write.
-- Needs lib_leftovers.lua and lib_lanes.lua. freed, which may be missing: keys of tasks and of
-- locks that are deleted before store_write.

-- For how many more pending and scheduled tasks the queue has room.
local function store_room(Q)
    local limit = redis.pcall('GET', Q .. 'quern:max_pending')
    limit = type(limit) == 'string' and tonumber(string.match(limit, '^[1-9]%d*$') or '')
    local scheduled = limit and redis.pcall('ZCARD', Q .. 'scheduled')
    local room = limit and limit - redis.call('LLEN', Q .. 'pending') -
        (type(scheduled) == 'number' and scheduled or 0)
    -- bug MAX_PENDING_OFF_BY_ONE: 0 + 1
    return room or math.huge
end

-- The value of a lock that is held. One of another type is none, and is replaced; nor is one
-- without end whose task is gone: asynq deletes what its archive has no room for, and leaves the
-- locks.
local function store_lock_value(Q, lock)
    local value = redis.pcall('GET', lock)
    if type(value) ~= 'string' then
        return nil
    end
    local is_stray = redis.call('PTTL', lock) == -1 and
        redis.pcall('HGET', Q .. 't:' .. value, 'unique_key') ~= lock
    return not is_stray and value or nil
end

-- What becomes of task i if its lock is held, by one of the same batch (`first`) or another; nil:
-- it is to be stored. The value of a lock is the id of its holder; behind a line feed it says that
-- the lock holds for its whole time.
local function store_lock_test(batch, i, first)
    local row = batch.tasks[i]
    local value = first and ARGV[batch.ids + first] or
        not (batch.freed and batch.freed[row.lock]) and store_lock_value(batch.Q, row.lock)
    if not value then
        return nil
    end
    local holder = string.match(value, '^[^\n]*')
    local policies, policy, result = batch.policies, batch.policies and row.policy, 'd'
    local is_fixed = first and batch.tasks[first].fixed == 'x' or holder ~= value
    if policy == 'i' then
        result = 'i'
    elseif (policy == 'p' or policy == 'b') and first then
        policies.in_batch(batch, first, i)
        result = 'r'
    elseif policy == 'p' or policy == 'b' then
        result = policies.plan(batch, i, row, holder, is_fixed)
    end
    batch.holders[i] = result and holder
    return result
end

-- Tasks that have no result afterwards are to be stored.
local function store_read(batch)
    local call, Q, names, results = redis.call, batch.Q, batch.names, batch.results
    local delayed_count = 0
    local tasks = {}
    batch.holders, batch.plans = {}, {}
    call('LLEN', Q .. 'pending')
    for at = batch.rows, #ARGV, 7 do
        local row = {state = ARGV[at + 1], at_ms = ARGV[at + 2], lock = ARGV[at + 3],
            lock_ms = ARGV[at + 4], group = ARGV[at + 5], options = ARGV[at + 6]}
        if row.lock ~= '' then
            row.lock_ms, row.fixed, row.policy = string.match(row.lock_ms, '^(%d+)(x?)(%l?)$')
        end
        local i = tonumber(ARGV[at])
        tasks[i] = row
        row.key = lane_key_of(row.options)
        if not results[i] and row.state == 'pending' and row.key ~= '' then
            call('ZCARD', Q .. 'scheduled')
            call('HLEN', Q .. 'quern:meta')
        end
        if not results[i] and row.state == 'scheduled' then
            call('ZCARD', Q .. 'scheduled')
            call('ZCARD', Q .. 'quern:due')
            delayed_count = delayed_count + 1
        elseif not results[i] and row.state == 'aggregating' then
            call('ZCARD', Q .. 'g:' .. row.group)
            call('SCARD', Q .. 'groups')
        end
    end
    batch.tasks = tasks
    local seen, freed, room = {}, batch.freed or {}, store_room(Q)
    for i = 1, #names do
        local lock = tasks[i] and tasks[i].lock or ''
        if not results[i] and lock ~= '' then
            results[i] = store_lock_test(batch, i, seen[lock])
        end
        if not results[i] then
            if seen[names[i]] or not freed[names[i]] and call('EXISTS', names[i]) == 1 then
                results[i] = 'c'
            elseif room <= 0 and not (tasks[i] and tasks[i].state == 'aggregating') then
                results[i] = 'f'
            else
                room = room - (tasks[i] and tasks[i].state == 'aggregating' and 0 or 1)
                seen[names[i]] = true
                seen[lock] = lock ~= '' and i
            end
        end
    end
    batch.leftovers = store_leftovers(Q, batch.now_s, batch.now_us, 2 * delayed_count + 4)
end

local function store_delayed(batch, id, at_ms)
    local exact_ms = tonumber(at_ms)
    local delayed, exact, whole = batch.delayed, batch.exact, batch.whole
    delayed[#delayed + 1] = string.format('%.0f', math.ceil(exact_ms / 1000))
    delayed[#delayed + 1] = id
    if exact_ms % 1000 ~= 0 then
        exact[#exact + 1] = at_ms
        exact[#exact + 1] = id
    else
        whole[#whole + 1] = id
    end
end

local function store_task(batch, i)
    local call, Q, name, row = redis.call, batch.Q, batch.names[i], batch.tasks[i]
    local id = ARGV[batch.ids + i]
    local message = row and row.message or ARGV[batch.messages + i]
    if row and row.state == 'pending' and row.key ~= '' then
        local place = lane_next_place(batch.places, Q, batch.now_s * 1000000 + batch.now_us)
        call('HSET', name, 'msg', message, 'pending_since',
            string.format('%s%s%03d', batch.now_s, batch.now_us, i - 1))
        lane_put(Q, id, row.key .. '\31' .. lane_type_of(message), place, batch.now_s)
    elseif not row or row.state == 'pending' then
        call('HSET', name, 'msg', message, 'state', 'pending', 'pending_since',
            string.format('%s%s%03d', batch.now_s, batch.now_us, i - 1))
        batch.pending[#batch.pending + 1] = id
    elseif row.state == 'scheduled' then
        call('HSET', name, 'msg', message, 'state', 'scheduled')
        if row.group ~= '' then
            call('HSET', name, 'group', row.group) -- where forward puts it
        end
        store_delayed(batch, id, row.at_ms)
    else
        call('HSET', name, 'msg', message, 'state', 'aggregating', 'group', row.group)
        call('ZADD', Q .. 'g:' .. row.group, batch.now_s, id)
        call('SADD', Q .. 'groups', row.group)
    end
    if row and row.options ~= '' then
        call('HSET', name, 'quern_opts', string.format('%.0f %s',
            batch.now_s * 1000 + math.floor(batch.now_us / 1000), row.options))
    end
    if row and row.lock ~= '' then
        call('HSET', name, 'unique_key', row.lock)
        call('SET', row.lock, row.fixed == 'x' and id .. '\nexpires' or id, 'PX', row.lock_ms)
    end
end

local function store_write(batch)
    local Q, results = batch.Q, batch.results
    batch.pending, batch.delayed, batch.exact, batch.whole = {}, {}, {}, {}
    batch.places = {}
    if next(batch.plans) then
        batch.policies.write(batch)
    end
    for i = 1, #batch.names do
        if not results[i] then
            results[i] = 'o'
            store_task(batch, i)
        end
    end
    local function add(command, name, members)
        if #members > 0 then
            redis.call(command, Q .. name, unpack(members))
        end
    end
    if batch.places.last then
        lanes_note(Q, batch.places)
    end
    add('LPUSH', 'pending', batch.pending)
    add('ZADD', 'scheduled', batch.delayed)
    add('ZREM', 'quern:due', batch.leftovers)
    add('ZADD', 'quern:due', batch.exact)
    add('ZREM', 'quern:due', batch.whole)
end
