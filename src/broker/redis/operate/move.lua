-- move.lua - tasks that wait go to another queue by hand.
--
-- KEYS: prefix of the queue, prefix of the other one; in one slot. ARGV: name of the other queue;
-- the state that the tasks must be in, or "" for any; the most that its archive may hold; ids.
-- Reply: for each "done", or why not: "missing", "damaged", "set" (inside an aggregation set),
-- "moved" (no longer in that state), "exists" (the other queue has the id), "locked" (a task there
-- holds its lock), "full" (the archive there), or the state that forbids it.
--
-- The hash gets another name and message, and so does its lock, if it holds one; a lock that holds
-- for its whole time stays behind. A pending task stands at the tail there, also one that waited
-- aside.
local Q, other = KEYS[1], KEYS[2]
local queue, wanted, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
local now_s = redis.call('TIME')[1]
-- include: lib_lock.lua
-- include: lib_sets.lua
-- include: lib_varint.lua
-- include: lib_fields.lua
-- include: change/lib_altered.lua
-- include: limits/lib_aside.lua
local zsets = {scheduled = true, retry = true, archived = true}
local movable = {pending = true, scheduled = true, retry = true, archived = true,
    aggregating = true}

-- Redis returns OOM for the first write that takes memory; after this one it no longer does.
redis.call('ZREM', Q .. 'lease', '')

-- Each key that will be written is read with the command of its type: a wrong type fails here.
for _, prefix in ipairs({Q, other}) do
    redis.call('LLEN', prefix .. 'pending')
    redis.call('SCARD', prefix .. 'groups')
    redis.call('ZCARD', prefix .. 'quern:due')
    redis.call('HLEN', prefix .. 'quern:meta')
    for state in pairs(zsets) do
        redis.call('ZCARD', prefix .. state)
    end
end
local archived = redis.call('ZCARD', other .. 'archived')
local taken = {} -- ids of this call

-- The lock that a task names; a grouped one of Go's does so in its message only.
local function lock_named(message)
    local lock
    each_field(message, function(tag, _, first, after)
        if tag == @QN_ASYNQ_TAG_UNIQUE_KEY@ then
            local _, text = varint_at(message, first + 1)
            lock = string.sub(message, text, after - 1)
        end
    end)
    return lock
end

-- Its lock, if it is one of this queue, and what that is called in the other one.
local function read_lock(task, named)
    if string.sub(named or '', 1, #Q + 7) == Q .. 'unique:' then
        task.lock, task.new_lock = named, other .. string.sub(named, #Q + 1)
        task.owns = owns_lock(task.id, named)
    end
end

-- What the other queue says; nil: it takes the task.
local function refuses(task)
    if redis.call('EXISTS', other .. 't:' .. task.id) == 1 then
        return 'exists'
    elseif task.owns and redis.call('EXISTS', task.new_lock) == 1 then
        return 'locked'
    elseif task.state == 'archived' and archived >= room then
        return 'full'
    elseif task.state == 'aggregating' then
        redis.call('ZCARD', other .. 'g:' .. task.group)
    end
    return nil
end

-- The reason that forbids it, or nil; fills in the data for the writes.
local function examine(task)
    local key = Q .. 't:' .. task.id
    local kind = taken[task.id] and 'none' or redis.call('TYPE', key).ok
    if kind ~= 'hash' then
        return kind == 'none' and 'missing' or 'damaged'
    end
    local f = redis.call('HMGET', key, 'msg', 'state', 'group', 'unique_key', 'quern_aside')
    task.state, task.group = f[2], f[3] or ''
    if not f[1] or not task.state then
        return 'damaged'
    elseif wanted ~= '' and wanted ~= task.state then
        return 'moved'
    elseif not movable[task.state] then
        return task.state
    end
    task.lane = aside_lane(task.state, f[5])
    local place = task.state == 'aggregating' and 'g:' .. task.group or task.state
    task.score = task.state ~= 'pending' and redis.call('ZSCORE', Q .. place, task.id)
    if task.state ~= 'pending' and not task.score then
        return task.state == 'aggregating' and 'set' or 'damaged'
    end
    read_lock(task, f[4] or lock_named(f[1]))
    task.message = altered_message(f[1], {payload = false, retry = '', queue = queue,
        lock = task.new_lock or ''})
    task.has_lock_field = f[4]
    return not task.message and 'damaged' or refuses(task)
end

local reply, tasks = {}, {}
for i = 4, #ARGV do
    local task = {id = ARGV[i]}
    local why = examine(task)
    reply[#reply + 1] = why or 'done'
    if not why then
        taken[task.id] = true
        archived = archived + (task.state == 'archived' and 1 or 0)
        tasks[#tasks + 1] = task
    end
end

local function take_out(task)
    if task.state == 'pending' then
        redis.call('LREM', Q .. 'pending', -1, task.id)
    elseif task.state == 'aggregating' then
        redis.call('ZREM', Q .. 'g:' .. task.group, task.id)
        unlist_group(task.group)
    else
        redis.call('ZREM', Q .. task.state, task.id)
    end
    if task.lane then
        aside_leave(Q, task.id, task.lane)
    end
    task.due_ms = redis.call('ZSCORE', Q .. 'quern:due', task.id)
    redis.call('ZREM', Q .. 'quern:due', task.id)
end

local function put_in(task)
    if task.state == 'pending' or task.lane then
        redis.call('LPUSH', other .. 'pending', task.id)
    elseif task.state == 'aggregating' then
        redis.call('ZADD', other .. 'g:' .. task.group, task.score, task.id)
        redis.call('SADD', other .. 'groups', task.group)
    else
        redis.call('ZADD', other .. task.state, task.score, task.id)
        if task.due_ms then
            redis.call('ZADD', other .. 'quern:due', task.due_ms, task.id)
        else
            redis.call('ZREM', other .. 'quern:due', task.id)
        end
    end
end

local function change_hash(task)
    local key = other .. 't:' .. task.id
    redis.call('RENAME', Q .. 't:' .. task.id, key)
    redis.call('HSET', key, 'msg', task.message)
    redis.call('HDEL', key, 'quern_place', 'quern_aside')
    if task.lane then
        redis.call('HSET', key, 'state', 'pending')
    end
    if task.new_lock and task.has_lock_field then
        redis.call('HSET', key, 'unique_key', task.new_lock)
    end
    if task.owns then
        redis.call('RENAME', task.lock, task.new_lock)
        -- bug MOVED_LOCK_STAYS: redis.call('EXISTS', task.lock)
    end
end

for _, task in ipairs(tasks) do
    take_out(task)
    change_hash(task)
    put_in(task)
end

-- A task that has run here has a later fence there, too.
local fence = tasks[1] and redis.call('HMGET', Q .. 'quern:meta', 'fence', 'moved') or {}
fence = fence[1] or fence[2] or ''
if string.find(fence, '^[1-9]%d*$') and #fence <= 16 then
    raise_fence(other .. 'quern:meta', fence)
end
return reply
