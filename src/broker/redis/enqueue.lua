-- enqueue.lua - stores tasks in one queue, each whole or not at all.
--
-- KEYS: prefix of the queue.
-- ARGV: session, sequence, count, twins (1: an id comes twice), then count x (id, message), then
--   for each task that is more than a pending one: index (from 1), state, at_ms (scheduled), lock,
--   lock_ms, group, options. No lock, no group, no options: ''. Options lack their first number.
-- Reply: a character a task: o stored, d its lock is held, c its id exists.
--
-- As asynq: the lock is tested before the id, new ids go to the left of pending, scores are whole
-- seconds. Otherwise than asynq: a conflict leaves no lock, a grouped task knows its lock.
-- include: lib_session.lua
local call = redis.call
local Q = KEYS[1]
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':e'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local now = call('TIME')
local now_s = now[1]
local now_ms = string.format('%.0f', now_s * 1000 + math.floor(now[2] / 1000))
local since_format = now_s .. string.format('%06d', now[2]) .. '%03d'
local count = tonumber(ARGV[3])
local first = 5
local last = first + 2 * count - 1
local T = Q .. 't:'
local results = {}

-- Reading. What is neither 'd' nor 'c' afterwards is stored.
call('LLEN', Q .. 'pending')
-- bug WRITE_BEFORE_READ: call('PING')
local rows = {}
local names = {}
for i = 1, count do
    names[i] = T .. ARGV[first + 2 * (i - 1)]
end
for at = last + 1, #ARGV, 7 do
    local row = {state = ARGV[at + 1], at_ms = ARGV[at + 2], lock = ARGV[at + 3],
        lock_ms = ARGV[at + 4], group = ARGV[at + 5], options = ARGV[at + 6]}
    rows[tonumber(ARGV[at])] = row
    if row.state == 'scheduled' then
        call('ZCARD', Q .. 'scheduled')
        call('ZCARD', Q .. 'quern:due')
    elseif row.state == 'aggregating' then
        call('ZCARD', Q .. 'g:' .. row.group)
        call('SCARD', Q .. 'groups')
    end
end
local plain = #ARGV == last and ARGV[4] == '0'
if not plain or call('EXISTS', unpack(names)) > 0 then
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
end

-- Writing. A nanosecond more for each task keeps their order.
local pending = {}
local delayed = {}
local exact = {}
local whole = {}
local function store(i, id, message, row)
    local name = names[i]
    if row.state == 'pending' then
        call('HSET', name, 'msg', message, 'state', 'pending', 'pending_since',
            string.format(since_format, i - 1))
        pending[#pending + 1] = id
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
        local at = first + 2 * (i - 1)
        results[i] = 'o'
        if rows[i] then
            store(i, ARGV[at], ARGV[at + 1], rows[i])
        else
            call('HSET', names[i], 'msg', ARGV[at + 1], 'state', 'pending', 'pending_since',
                string.format(since_format, i - 1))
            pending[#pending + 1] = ARGV[at]
        end
    end
end
if #pending > 0 then
    call('LPUSH', Q .. 'pending', unpack(pending))
end
if #delayed > 0 then
    call('ZADD', Q .. 'scheduled', unpack(delayed))
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
