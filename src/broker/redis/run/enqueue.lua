-- enqueue.lua - stores tasks in one queue, each whole or not at all.
--
-- KEYS: prefix of the queue.
-- ARGV: session, sequence, count, then count x id, count x message, then for each task that is more
--   than a pending one: index (from 1), state, at_ms (scheduled), lock, lock_ms, group, options. No
--   lock, no group, no options: ''. Options lack their first number. Instead of count '': there are
--   pending tasks only, and each id comes once.
-- Reply: 'o' if all are stored, else a character a task: o stored, d its lock is held, c its id
--   exists.
--
-- As asynq: the lock is tested before the id, new ids go to the left of pending, scores are whole
-- seconds. Unlike asynq: a conflict leaves no lock, a grouped task knows its lock.
-- include: lib_session.lua
local call = redis.call
local Q = KEYS[1]
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':e'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local plain = ARGV[3] == ''
local count = plain and (#ARGV - 3) / 2 or tonumber(ARGV[3])
local ids = 3
local messages = ids + count
local T = Q .. 't:'
local names = {}
for i = 1, count do
    names[i] = T .. ARGV[ids + i]
end
local now = call('TIME')
local now_s, now_us = now[1], now[2]
if #now_us < 6 then
    now_us = string.format('%06d', now_us)
end
-- Where no worker of ours forwards, Go does, and leaves the entries of the index behind. So each
-- enqueue removes a few, and twice as many as it adds: those whose moment has passed, and whose
-- task does not wait for it any more.
local function find_leftovers(limit)
    local leftovers = {}
    local now_ms = string.format('%.0f', now_s * 1000 + math.floor(now_us / 1000))
    local past = redis.pcall('ZRANGEBYSCORE', Q .. 'quern:due', '-inf', now_ms, 'WITHSCORES',
        'LIMIT', 0, limit)
    for i = 1, #past, 2 do
        local second = string.format('%.0f', math.ceil(past[i + 1] / 1000))
        if redis.pcall('ZSCORE', Q .. 'scheduled', past[i]) ~= second and
            redis.pcall('ZSCORE', Q .. 'retry', past[i]) ~= second then
            leftovers[#leftovers + 1] = past[i]
            -- bug DUE_LEFT_BEHIND: leftovers = {}
        end
    end
    return leftovers
end

-- The short way, for nearly all. The first to write is LPUSH, which fails if the key has the wrong
-- type; nothing after it can. A nanosecond more for each task keeps their order. One EXISTS asks
-- for the tasks and the index, which mostly is empty: one more command would be noticeable here.
local there, leftovers = plain and call('EXISTS', Q .. 'quern:due', unpack(names)), nil
if there == 1 and call('EXISTS', Q .. 'quern:due') == 1 then
    there, leftovers = 0, find_leftovers(4)
end
if there == 0 then
    call('LPUSH', Q .. 'pending', unpack(ARGV, ids + 1, messages))
    -- bug WRITE_BEFORE_READ: redis.pcall('LPUSH', Q .. 'pending', unpack(ARGV, ids + 1, messages))
    -- Formatting each moment would take longer than anything else here.
    local digits = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}
    local tens = now_s .. now_us .. '00'
    for i = 1, count do
        local last = (i - 1) % 10
        if last == 0 and i > 1 then
            tens = string.format('%s%s%02d', now_s, now_us, i / 10)
        end
        call('HSET', names[i], 'msg', ARGV[messages + i], 'state', 'pending', 'pending_since',
            tens .. digits[last + 1])
    end
    if leftovers and leftovers[1] then
        call('ZREM', Q .. 'quern:due', unpack(leftovers))
    end
    session_keep(session_key, ARGV[2], 'o')
    return 'o'
end

-- Reading. Tasks that are neither 'd' nor 'c' afterwards are stored.
call('LLEN', Q .. 'pending')
local rows = {}
local delayed_count = 0
for at = messages + count + 1, #ARGV, 7 do
    local row = {state = ARGV[at + 1], at_ms = ARGV[at + 2], lock = ARGV[at + 3],
        lock_ms = ARGV[at + 4], group = ARGV[at + 5], options = ARGV[at + 6]}
    rows[tonumber(ARGV[at])] = row
    if row.state == 'scheduled' then
        call('ZCARD', Q .. 'scheduled')
        call('ZCARD', Q .. 'quern:due')
        delayed_count = delayed_count + 1
    elseif row.state == 'aggregating' then
        call('ZCARD', Q .. 'g:' .. row.group)
        call('SCARD', Q .. 'groups')
    end
end
local results = {}
local seen = {}
for i = 1, count do
    local lock = rows[i] and rows[i].lock or ''
    if lock ~= '' and (seen[lock] or call('GET', lock)) then
        results[i] = 'd'
    elseif seen[names[i]] or call('EXISTS', names[i]) == 1 then
        results[i] = 'c'
    else
        seen[names[i]] = true
        if lock ~= '' then
            seen[lock] = true
        end
    end
end

local now_ms = string.format('%.0f', now_s * 1000 + math.floor(now_us / 1000))
leftovers = find_leftovers(2 * delayed_count + 4)

-- Writing.
local pending = {}
local delayed = {}
local exact = {}
local whole = {}
local function store_pending(i, id)
    call('HSET', names[i], 'msg', ARGV[messages + i], 'state', 'pending', 'pending_since',
        string.format('%s%s%03d', now_s, now_us, i - 1))
    pending[#pending + 1] = id
end
local function store(i, id, row)
    local name = names[i]
    local message = ARGV[messages + i]
    if row.state == 'pending' then
        store_pending(i, id)
    elseif row.state == 'scheduled' then
        call('HSET', name, 'msg', message, 'state', 'scheduled')
        local at_ms = tonumber(row.at_ms)
        delayed[#delayed + 1] = string.format('%.0f', math.ceil(at_ms / 1000))
        delayed[#delayed + 1] = id
        if at_ms % 1000 ~= 0 then
            exact[#exact + 1] = row.at_ms
            exact[#exact + 1] = id
        else
            whole[#whole + 1] = id
        end
    else
        call('HSET', name, 'msg', message, 'state', 'aggregating', 'group', row.group)
        call('ZADD', Q .. 'g:' .. row.group, now_s, id)
        call('SADD', Q .. 'groups', row.group)
    end
    if row.options ~= '' then
        call('HSET', name, 'quern_opts', now_ms .. ' ' .. row.options)
    end
    if row.lock ~= '' then
        call('HSET', name, 'unique_key', row.lock)
        call('SET', row.lock, id, 'PX', row.lock_ms)
    end
end
for i = 1, count do
    if not results[i] then
        results[i] = 'o'
        if rows[i] then
            store(i, ARGV[ids + i], rows[i])
        else
            store_pending(i, ARGV[ids + i])
        end
    end
end
if #pending > 0 then
    call('LPUSH', Q .. 'pending', unpack(pending))
end
if #delayed > 0 then
    call('ZADD', Q .. 'scheduled', unpack(delayed))
end
if #leftovers > 0 then
    call('ZREM', Q .. 'quern:due', unpack(leftovers))
end
if #exact > 0 then
    call('ZADD', Q .. 'quern:due', unpack(exact))
end
if #whole > 0 then
    call('ZREM', Q .. 'quern:due', unpack(whole))
end
answer = table.concat(results)
session_keep(session_key, ARGV[2], answer)
return answer
