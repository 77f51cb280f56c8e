-- lib_change.lua - what a run changes in its task when it ends: its data, or the queue where it
-- waits for its next run. Expects lib_end.lua, lib_fields.lua, lib_varint.lua, lib_lock.lua.
--
-- In another queue it is the same hash under another name, and its lock the same key under another
-- name. It goes there after the plan was carried out, which knows nothing of it. The keys of that
-- queue are in another slot of a Cluster: there the caller names no prefix, and the task stays.
local change = {asked = {}, moves = {}, taken = {}}

-- Remembers it for the outcome of this run, which follows; returns where that begins.
function change.ask(id, first)
    local asked = {payload = ARGV[first] == '1' and ARGV[first + 1], retry = ARGV[first + 2],
        queue = ARGV[first + 3], lock = '', token = ARGV[first - 1]}
    local after = first + 4
    if asked.queue ~= '' then
        asked.Q, asked.queues, asked.from, asked.lock = ARGV[after], ARGV[after + 1],
            ARGV[after + 2], ARGV[after + 3]
        asked.holds_lock, after = ARGV[after + 4] == '1', after + 5
    end
    change.asked[id] = asked
    -- bug STALE_RUN_CHANGES: plan_set(id, 'msg', altered_message(message_of(id), asked))
    return after
end

-- Whether the queue can take the task: it has neither its id nor its lock, if it needs that, and
-- nothing there has the wrong type.
local function may_move(id, asked)
    local pcall = redis.pcall
    local needs_lock = asked.lock ~= '' and asked.holds_lock
    local is_held = needs_lock and (change.taken[asked.lock] or pcall('GET', asked.lock))
    return asked.Q ~= '' and pcall('EXISTS', asked.Q .. 't:' .. id) == 0 and not is_held and
        type(pcall('ZCARD', asked.Q .. 'retry')) == 'number' and
        type(pcall('ZCARD', asked.Q .. 'quern:due')) == 'number' and
        type(pcall('SCARD', asked.queues)) == 'number' and
        type(pcall('HGET', asked.Q .. 'quern:meta', 'fence')) ~= 'table'
end

-- The message of a task that goes on; `message`: as it will be so far, nil: as it is stored. at_ms:
-- when it is due; nil: it stays in its queue. Then, whether it has to stay there.
function change.plan(id, message, at_ms)
    local asked = change.asked[id]
    if not asked then
        return message
    end
    local wants = asked.queue ~= '' and at_ms
    local moves = wants and may_move(id, asked)
    if not moves then
        asked.queue, asked.lock = '', ''
    end
    local changed = altered_message(message or message_of(id), asked)
    if changed and moves then
        change.taken[asked.lock] = true
        change.moves[#change.moves + 1] = {id = id, at_ms = at_ms, to = asked}
    end
    return changed or message, wants and not (changed and moves)
end

-- Whether the task of the latest plan leaves its queue.
function change.is_moving(id)
    local last = change.moves[#change.moves]
    return last ~= nil and last.id == id
end

local function change_queue(id, at_ms, to)
    local call, task = redis.call, to.Q .. 't:' .. id
    call('ZREM', Q .. 'retry', id)
    -- bug OLD_QUEUE_KEEPS_IT: call('ZCARD', Q .. 'retry')
    call('ZREM', Q .. 'quern:due', id)
    call('RENAME', T .. id, task)
    call('HDEL', task, 'quern_aside')
    call('SADD', to.queues, to.queue)
    raise_fence(to.Q .. 'quern:meta', string.sub(to.token, 1, -4))
    call('ZADD', to.Q .. 'retry', whole_number(math.ceil(at_ms / 1000)), id)
    if at_ms % 1000 == 0 then
        call('ZREM', to.Q .. 'quern:due', id)
    else
        call('ZADD', to.Q .. 'quern:due', whole_number(at_ms), id)
    end
    if to.lock ~= '' then
        call('HSET', task, 'unique_key', to.lock)
    end
    if to.lock ~= '' and owns_lock(id, to.from) then
        -- bug LOCK_LEFT_BEHIND: if false then
        call('RENAME', to.from, to.lock)
    end
end

-- Carries out the plan, and then what it does not know.
local function change_write()
    end_write()
    for _, move in ipairs(change.moves) do
        change_queue(move.id, move.at_ms, move.to)
    end
end
