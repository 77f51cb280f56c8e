-- operate.lua - operations by hand on tasks of one queue: run, archive, delete, cancel.
--
-- KEYS: prefix of the queue. ARGV: action ("run", "archive", "delete", "trash", which deletes into
-- the trash, "retry" and "stop", which cancel a run); the state that the tasks must be in, or ""
-- for one task in whatever state; the most that the archive may hold; then for each task its id and
-- the lock that its message names, or "".
--
-- Reply: for each task "done", or why not: "missing", "damaged" (to be deleted only), "set" (inside
-- an aggregation set), "marked" (already cancelled in this way), "moved" (no longer in that state),
-- or the state that forbids it, which is "pending" for one that waits aside. When the archive has
-- no room for all of them: "full", how many it holds, and how many would be added; when the trash
-- has none: "trash", its tasks and bytes; then nothing was changed.
--
-- A task without a hash, or of an unknown state, can only be deleted: that removes its id from all
-- places. One that is not in the place of its state is treated as if it were.
local Q = KEYS[1]
-- include: lib_lock.lua
-- include: lib_renew.lua
-- include: lib_sets.lua
-- include: limits/lib_aside.lua
-- include: trash/lib_trash.lua
local action, wanted, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
local cancel = action == 'retry' or action == 'stop'
local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local now_ns = time[1] .. string.format('%06d', time[2]) .. '000'

local zsets = {scheduled = true, retry = true, archived = true, completed = true}
local known = {scheduled = true, retry = true, archived = true, completed = true, pending = true,
    active = true, aggregating = true}
local forbidden = {
    run = {active = true, pending = true},
    archive = {active = true, archived = true},
    delete = {active = true},
    trash = {active = true}
}

-- Redis returns OOM for the first write that takes memory; after this one it no longer does.
redis.call('ZREM', Q .. 'lease', '')

-- Each key that will be written is read with the command of its type: a wrong type fails here.
redis.call('LLEN', Q .. 'pending')
redis.call('SCARD', Q .. 'groups')
redis.call('ZCARD', Q .. 'quern:due')
redis.call('HLEN', Q .. 'quern:meta')
redis.call('ZCARD', Q .. 'completed')
redis.call('ZCARD', Q .. 'scheduled')
redis.call('ZCARD', Q .. 'retry')
local archived = redis.call('ZCARD', Q .. 'archived')

local function in_a_set(id)
    local sets = redis.call('ZRANGE', Q .. 'aggregation_sets', 0, 127)
    for _, set in ipairs(sets) do
        if string.sub(set, 1, #Q) == Q and type(redis.pcall('ZSCORE', set, id)) == 'string' then
            return true
        end
    end
    return #sets == 128
end

-- The lock, if this task holds it.
local function lock_of(id, lock)
    return owns_lock(id, lock) and lock or nil
end

-- Without a hash: is the id anywhere?
local function is_ghost(id)
    for state in pairs(zsets) do
        if redis.call('ZSCORE', Q .. state, id) then
            return true
        end
    end
    return redis.call('LPOS', Q .. 'pending', id, 'RANK', -1) ~= false
end

-- The reason that forbids it, or nil; fills in the data for the writes.
local function examine(task)
    local kind = redis.call('TYPE', task.key).ok
    local hash = {}
    if kind == 'hash' then
        hash = redis.call('HMGET', task.key, 'state', 'group', 'unique_key', 'quern_past',
            'quern_cancel', 'quern_opts', 'quern_aside')
    end
    task.lane = aside_lane(hash[1], hash[7])
    task.state = hash[1] or ''
    task.group = hash[2] or ''
    task.past, task.opts = hash[4] or '', hash[6] or ''
    task.unique_key, task.options = hash[3] or nil, hash[6] or nil
    task.lock = lock_of(task.id, hash[3] or task.named)
    if not known[task.state] then
        task.damaged = true
        if redis.call('ZSCORE', Q .. 'lease', task.id) then
            return 'active'
        end
        local there = kind ~= 'none' or is_ghost(task.id)
        if not there then
            return 'missing'
        end
        return action ~= 'delete' and action ~= 'trash' and 'damaged' or nil
    end
    if wanted ~= '' and wanted ~= task.state then
        return 'moved'
    end
    if cancel then
        if task.state ~= 'active' then
            return task.state
        end
        task.mark = (action == 'stop' or hash[5] == 'archive') and 'archive' or 'retry'
        return wanted ~= '' and hash[5] == task.mark and 'marked' or nil
    end
    if forbidden[action][task.state] then
        return task.state
    end
    if action == 'run' and task.lane and is_in_lane(Q, task.id, hash[1], hash[7]) and
        redis.call('ZSCORE', Q .. 'scheduled', task.id) then
        return 'pending' -- it would lose its place
    end
    if task.state == 'aggregating' and not redis.call('ZSCORE', Q .. 'g:' .. task.group, task.id)
            and in_a_set(task.id) then
        return 'set'
    end
    return nil
end

local reply, tasks = {}, {}
for i = 4, #ARGV, 2 do
    local task = {id = ARGV[i], key = Q .. 't:' .. ARGV[i], named = ARGV[i + 1], number = i / 2}
    local why = examine(task)
    reply[#reply + 1] = why or 'done'
    if not why then
        tasks[#tasks + 1] = task
    end
end
if action == 'archive' and wanted ~= '' and archived + #tasks > room then
    return {'full', tostring(archived), tostring(#tasks)}
end

-- The trash is full with the first task that finds it so.
local function trash_refuses(trash_tasks)
    local count, bytes = trash_use(Q)
    for _, task in ipairs(trash_tasks) do
        if not task.damaged then
            if count >= @QN_TRASH_SIZE_MAX@ or bytes >= @QN_TRASH_BYTES_MAX@ then
                return {'trash', string.format('%.0f', count), string.format('%.0f', bytes)}
            end
            task.size = @QN_TRASH_TASK_BYTES@ + redis.call('HSTRLEN', task.key, 'msg') +
                redis.call('HSTRLEN', task.key, 'result')
            count, bytes = count + 1, bytes + task.size
        end
    end
    return nil
end
if action == 'trash' then
    local refused = trash_refuses(tasks)
    if refused and trash_expire(Q, tonumber(now_ms), 500) > 0 then
        refused = trash_refuses(tasks)
    end
    if refused then
        return refused
    end
end

local function take_out(task)
    if task.state == 'pending' then
        redis.call('LREM', Q .. 'pending', -1, task.id)
    elseif task.state == 'aggregating' then
        redis.call('ZREM', Q .. 'g:' .. task.group, task.id)
        unlist_group(task.group)
    elseif zsets[task.state] then
        redis.call('ZREM', Q .. task.state, task.id)
    elseif task.damaged then
        for state in pairs(zsets) do
            redis.call('ZREM', Q .. state, task.id)
        end
        redis.call('LREM', Q .. 'pending', -1, task.id)
    end
    redis.call('ZREM', Q .. 'quern:due', task.id)
    if task.lane then
        aside_leave(Q, task.id, task.lane)
    end
end

-- "crash_count crashed_at_ms failed_at_ms ended_at_ms cause since_ns", as words; fields that may
-- follow belong to the place that the task leaves.
local function past_of(task)
    local past = {}
    for word in string.gmatch(task.past, '%S+') do
        past[#past + 1] = word
    end
    for i = #past + 1, 6 do
        past[i] = '0'
    end
    return past
end

-- At the end of the archive, oldest first and few at a time: prune takes the rest.
local function trim()
    local surplus = math.min(redis.call('ZCARD', Q .. 'archived') - room, 100)
    if surplus <= 0 then
        return
    end
    local ids = redis.call('ZRANGE', Q .. 'archived', 0, surplus - 1)
    for _, id in ipairs(ids) do
        local key = Q .. 't:' .. id
        if redis.call('TYPE', key).ok == 'hash' then
            local lock = lock_of(id, redis.call('HGET', key, 'unique_key'))
            if lock then
                redis.call('DEL', lock)
            end
        end
        redis.call('DEL', key)
        redis.call('ZREM', Q .. 'archived', id)
    end
    redis.pcall('HINCRBY', Q .. 'quern:meta', 'trimmed', #ids) -- a number, or for doctor
end

local function follow(task, state)
    lock_renew(task.id, task.unique_key,
        lock_fate(task.id, task.unique_key, task.options, state, 0))
end

local act = {}
function act.run(task)
    local past = past_of(task)
    past[1], past[2], past[4], past[5], past[6] =
        '0', '0', '0', '@QUERN_CAUSE_OPERATOR@', '0'
    take_out(task)
    redis.call('LPUSH', Q .. 'pending', task.id)
    redis.call('HSET', task.key, 'state', 'pending', 'pending_since', now_ns,
        'quern_past', table.concat(past, ' ', 1, 6))
    -- It may start whenever: the eighth number is the moment by which it must have.
    local opts, more = string.match(task.opts, '^(%d+ %d+ %d+ %d+ %d+ %d+ %d+) [1-9]%d*(.*)$')
    if opts then
        redis.call('HSET', task.key, 'quern_opts', opts .. ' 0' .. more)
    end
    redis.call('HDEL', task.key, 'quern_place', 'quern_progress', 'quern_cancel')
    follow(task, 'pending')
end
function act.archive(task)
    local past = past_of(task)
    past[4] = now_ms
    take_out(task)
    redis.call('ZADD', Q .. 'archived', time[1], task.id)
    redis.call('HSET', task.key, 'state', 'archived', 'quern_past', table.concat(past, ' ', 1, 6))
    redis.call('HDEL', task.key, 'quern_place')
    follow(task, 'archived')
    trim()
end
function act.delete(task)
    take_out(task)
    if task.lock then
        redis.call('DEL', task.lock)
    end
    redis.call('DEL', task.key)
end

local function lock_end(lock)
    local left = lock and redis.call('PTTL', lock) or 0
    return left == -1 and 9e15 or left > 0 and now_ms + left or 0
end
-- The hash goes to the trash as it is, with what its places have of it.
function act.trash(task)
    if task.damaged then
        return act.delete(task)
    end
    local call, key = redis.call, trash_key(Q, task.id)
    local place = task.state == 'aggregating' and 'g:' .. task.group or task.state
    local score = zsets[task.state] or task.state == 'aggregating'
    score = score and call('ZSCORE', Q .. place, task.id) or 0
    local due_ms = call('ZSCORE', Q .. 'quern:due', task.id) or 0
    local until_ms = string.format('%.0f', now_ms + @QN_TRASH_MS@)
    local lock_until_ms = lock_end(task.lock)
    local former = trash_entry(Q, task.id)
    if former then
        trash_unlist(Q, task.id, former.size)
    end
    take_out(task)
    if task.lock then
        call('DEL', task.lock)
    end
    call('RENAME', task.key, key)
    call('HDEL', key, 'quern_place', 'quern_cancel', 'quern_aside')
    call('HSET', key, 'quern_trash', string.format('%s %.0f %.0f %.0f %.0f %s %s', until_ms,
        task.size, score, due_ms, lock_until_ms, task.lane and 'pending' or task.state,
        task.lock or ''))
    call('ZADD', Q .. 'quern:trash', string.format('%s.%03d', until_ms, task.number % 1000),
        string.format('%.0f', task.size) .. ' ' .. task.id)
    trash_count_bytes(Q, task.size)
    for _, name in ipairs({key, Q .. 'quern:trash', Q .. 'quern:trash_bytes'}) do
        call('EXPIRE', name, @QN_TRASH_MS@ / 1000 + 1)
    end
end
-- A Go worker heeds no mark. With the field of an earlier run of ours the next lease clears it.
local function mark_and_publish(task)
    redis.call('HSET', task.key, 'quern_cancel', task.mark)
    redis.call('HSETNX', task.key, 'quern_run', '0 0 0 0 ')
    redis.call('PUBLISH', 'asynq:cancel', task.id)
end
act.retry = mark_and_publish
act.stop = mark_and_publish
for _, task in ipairs(tasks) do
    act[action](task)
end
return reply
