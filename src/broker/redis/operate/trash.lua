-- trash.lua - tasks come back from the trash of a queue, or leave it for good.
--
-- KEYS: prefix of the queue. ARGV: "restore" or "delete"; "dry" to change nothing, or ""; the most
-- that the archive may hold; ids.
-- Reply: for each "done", "missing", "exists" (a task has its id), "locked" (another task has its
-- lock) or "full" (the archive). Those that are not done stay where they are.
--
-- A restored task is in its old state and has its old moment; a pending one stands at the tail, and
-- waits since now, if it has its moment of enqueue elsewhere. Its lock holds for the time that it
-- had left.
local Q = KEYS[1]
-- include: trash/lib_trash.lua
local action, is_dry, room = ARGV[1], ARGV[2] == 'dry', tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local now_ns = time[1] .. string.format('%06d', time[2]) .. '000'
local zsets = {scheduled = true, retry = true, archived = true, completed = true}

-- Redis returns OOM for the first write that takes memory; after this one it no longer does.
redis.call('ZREM', Q .. 'lease', '')

-- What will be written is read with the command of its type: a wrong type fails here.
redis.call('ZCARD', Q .. 'quern:trash')
redis.call('LLEN', Q .. 'pending')
redis.call('SCARD', Q .. 'groups')
redis.call('ZCARD', Q .. 'quern:due')
for name in pairs(zsets) do
    redis.call('ZCARD', Q .. name)
end
local archived = redis.call('ZCARD', Q .. 'archived')
local taken = {} -- by tasks of this call: locks and ids

-- The id that holds the lock; one without end whose task is gone is not held.
local function holder_of(lock)
    local value = redis.pcall('GET', lock)
    if type(value) ~= 'string' then
        return nil
    end
    local holder = string.match(value, '^[^\n]*')
    local is_stray = redis.call('PTTL', lock) == -1 and
        redis.pcall('HGET', Q .. 't:' .. holder, 'unique_key') ~= lock
    return not is_stray and holder or nil
end

-- What an enqueue would refuse.
local function refuses(id, entry)
    local is_ours = string.sub(entry.lock, 1, #Q + 7) == Q .. 'unique:'
    entry.wants_lock = is_ours and entry.lock_until_ms > now_ms
    if redis.call('EXISTS', Q .. 't:' .. id) == 1 then
        return 'exists'
    end
    local holder = entry.wants_lock and (taken[entry.lock] or holder_of(entry.lock))
    if holder and holder ~= id then
        return 'locked'
    end
    if entry.state == 'archived' and archived >= room then
        return 'full'
    end
    entry.group = redis.call('HGET', trash_key(Q, id), 'group') or ''
    if entry.state == 'aggregating' then
        redis.call('ZCARD', Q .. 'g:' .. entry.group)
    end
    if entry.wants_lock then
        taken[entry.lock] = id
    end
    archived = archived + (entry.state == 'archived' and 1 or 0)
    return nil
end

local plans, reply = {}, {}
for i = 4, #ARGV do
    local id = ARGV[i]
    local entry = not taken[trash_key(Q, id)] and trash_entry(Q, id)
    local why = (not entry or entry.until_ms <= now_ms) and 'missing' or nil
    if not why and action == 'restore' then
        why = refuses(id, entry)
    end
    reply[#reply + 1] = why or 'done'
    if not why then
        taken[trash_key(Q, id)] = id
        entry.id = id
        plans[#plans + 1] = entry
    end
end

if is_dry then
    return reply
end

local function put_into_place(entry)
    local call, id, key = redis.call, entry.id, Q .. 't:' .. entry.id
    if zsets[entry.state] then
        call('ZADD', Q .. entry.state, entry.score, id)
        if entry.due_ms ~= '0' then
            call('ZADD', Q .. 'quern:due', entry.due_ms, id)
        end
    elseif entry.state == 'aggregating' then
        call('ZADD', Q .. 'g:' .. entry.group, entry.score, id)
        call('SADD', Q .. 'groups', entry.group)
    else
        entry.state = 'pending'
        if call('HEXISTS', key, 'quern_opts') == 1 then
            call('HSET', key, 'pending_since', now_ns) -- else nothing has when it was enqueued
        end
        call('LPUSH', Q .. 'pending', id)
    end
    call('HSET', key, 'state', entry.state)
end

local function take_lock(entry)
    local left = entry.lock_until_ms - now_ms
    if entry.lock_until_ms >= 9e15 then
        redis.call('SET', entry.lock, entry.id)
    elseif redis.pcall('GET', entry.lock) ~= entry.id or
        redis.call('PTTL', entry.lock) < left then
        redis.call('SET', entry.lock, entry.id, 'PX', string.format('%.0f', left))
    end
end

local act = {}
function act.restore(entry)
    local from = trash_key(Q, entry.id)
    redis.call('HDEL', from, 'quern_trash')
    redis.call('PERSIST', from)
    redis.call('RENAME', from, Q .. 't:' .. entry.id)
    put_into_place(entry)
    if entry.wants_lock then
        take_lock(entry)
    end
end
function act.delete(entry)
    redis.call('UNLINK', trash_key(Q, entry.id))
end
trash_expire(Q, now_ms, 500)
for _, entry in ipairs(plans) do
    act[action](entry)
    trash_unlist(Q, entry.id, entry.size)
end
return reply
