-- enqueue.lua - stores tasks in one queue, each whole or not at all.
--
-- KEYS: prefix of the queue.
-- ARGV: session, sequence, count, then count x id, count x message, then for each task that is more
--   than a pending one: index (from 1), state, at_ms (scheduled), lock, lock_ms, group, options. No
--   lock, no group, no options: ''. Options lack their first number. Instead of count '': there are
--   pending tasks only, and each id comes once. With a '+' behind count lock_ms may have letters: x
--   the lock holds for its whole time, then what to do if it is held: i nothing, p replace the data
--   of its holder, b its moment, too.
-- Reply: 'o' if all are stored, else a character a task: o stored, d its lock is held, c its id
--   exists, f the queue has as many tasks as it may have, i left out, r has replaced another one;
--   then for each d, i and r the length of the id of the task that holds the lock, a space, and
--   that id.
--
-- As asynq: the lock is tested before the id, new ids go to the left of pending, scores are whole
-- seconds. Unlike asynq: a conflict leaves no lock, a grouped task knows its lock.
-- include: lib_session.lua
-- include: lib_leftovers.lua
local call = redis.call
local Q = KEYS[1]
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':e'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local plain = ARGV[3] == ''
local with_policies = not plain and string.byte(ARGV[3], -1) == 43
local count = plain and (#ARGV - 3) / 2 or tonumber(string.match(ARGV[3], '^%d+'))
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
-- The short way, for nearly all. The first to write is LPUSH, which fails if the key has the wrong
-- type; nothing after it can. A nanosecond more for each task keeps their order. One EXISTS asks
-- for the tasks, the index, which mostly is empty, and a limit of the queue: one more command would
-- be noticeable here.
local there, leftovers = plain and call('EXISTS', Q .. 'quern:max_pending', Q .. 'quern:due',
    unpack(names)), nil
if there == 1 and call('EXISTS', Q .. 'quern:due') == 1 then
    there, leftovers = 0, store_leftovers(Q, now_s, now_us, 4)
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

local policies
if with_policies then
-- include: lib_varint.lua
-- include: lib_fields.lua
-- include: lib_replace.lua
end
-- include: limits/lib_lanes.lua
-- include: lib_store.lua
local batch = {Q = Q, names = names, ids = ids, messages = messages, rows = messages + count + 1,
    results = {}, now_s = now_s, now_us = now_us, policies = policies,
    now_ms = now_s .. string.sub(now_us, 1, 3)}
store_read(batch)
store_write(batch)
answer = table.concat(batch.results)
if next(batch.holders) then
    for i = 1, count do
        local holder = batch.holders[i]
        answer = answer .. (holder and #holder .. ' ' .. holder or '')
    end
end
session_keep(session_key, ARGV[2], answer)
return answer
