-- lib_replace.lua - new data for a unique task that waits. Expects lib_fields.lua, and sets
-- `policies`.

-- The fields of a message that the new task brings along.
local function is_brought(tag)
    return tag == @QN_ASYNQ_TAG_TYPE@ or tag == @QN_ASYNQ_TAG_PAYLOAD@ or
        tag == @QN_ASYNQ_TAG_HEADER@
end

-- The message `old` with type, payload and headers of `new`; nil if it is not a message. Headers
-- stay behind all others, where the search for a field expects them.
local function replace_data(old, new)
    local head, tail, rest = {}, {}, {}
    local is_sound = each_field(new, function(tag, _, first, after)
        if is_brought(tag) then
            local list = tag == @QN_ASYNQ_TAG_HEADER@ and tail or head
            list[#list + 1] = string.sub(new, first, after - 1)
        end
    end) and each_field(old, function(tag, _, first, after)
        if not is_brought(tag) then
            rest[#rest + 1] = string.sub(old, first, after - 1)
        end
    end)
    return is_sound and table.concat(head) .. table.concat(rest) .. table.concat(tail) or nil
end

-- Options, with the moment by which the task must have started moved as its own moment is; `before`
-- is the pattern of what precedes it. nil: there is none.
local function moved_options(options, before, by_ms)
    local head, at_ms, tail = string.match(options or '', '^(' .. before .. ') ([1-9]%d*)(.*)$')
    return head and #at_ms <= 15 and
        string.format('%s %.0f%s', head, math.max(at_ms + by_ms, 1), tail) or nil
end

-- When a scheduled task or a retry is due: the score is the second rounded up, the exact moment is
-- in quern:due if it is none.
local function due_ms(Q, state, id)
    local score = tonumber(redis.call('ZSCORE', Q .. state, id))
    local exact_ms = tonumber(redis.call('ZSCORE', Q .. 'quern:due', id) or 0)
    return math.ceil(exact_ms / 1000) == score and exact_ms or score * 1000
end

-- Whether a task has this lock: a lock may outlive its task, whose id another one may have by now.
-- A grouped task of Go's names its lock in the message only.
local function has_lock(lock, unique_key, message)
    local found = unique_key or nil
    if message and not found then
        each_field(message, function(tag, _, first, after)
            if tag == @QN_ASYNQ_TAG_UNIQUE_KEY@ then
                local _, text = varint_at(message, first + 1)
                found = string.sub(message, text, after - 1)
            end
        end)
    end
    return found == lock
end

-- The task that holds a lock, as far as it may be replaced: message and state; nil if it does not
-- wait.
local function waiting_holder(Q, id, lock)
    local f = redis.pcall('HMGET', Q .. 't:' .. id, 'msg', 'state', 'group', 'unique_key',
        'quern_aside', 'quern_opts')
    local message, state, waits = f[1], f[2], false
    if not has_lock(lock, f[4], message) then
        return nil
    elseif message and state == 'pending' then
        -- bug ACTIVE_REPLACED: if message and (state == 'pending' or state == 'active') then
        waits = true
    elseif message and (state == 'scheduled' or state == 'retry') then
        waits = type(redis.pcall('ZSCORE', Q .. state, id)) == 'string'
    elseif message and state == 'aggregating' then
        waits = type(redis.pcall('ZSCORE', Q .. 'g:' .. (f[3] or ''), id)) == 'string'
    end
    if state == 'scheduled' and f[5] then
        state = 'pending' -- it waits for a limit, not for a moment
    end
    return waits and {id = id, message = message, state = state, options = f[6]} or nil
end

-- For lib_store.lua: row i finds its lock held by `holder`, and is to replace that one. 'r': it
-- does; 'd': it must not; nil: the holder does not wait.
local function replace_plan(batch, i, row, holder, is_fixed)
    local Q, plans = batch.Q, batch.plans
    local plan = plans[row.lock] or waiting_holder(Q, holder, row.lock)
    local message = plan and replace_data(plan.message, ARGV[batch.messages + i])
    if not message then
        return is_fixed and 'd' or nil
    end
    plan.message, plan.is_fixed = message, is_fixed
    plan.lock_ms = math.max(plan.lock_ms or 0, tonumber(row.lock_ms))
    if row.policy == 'b' and (plan.state == 'scheduled' or plan.state == 'retry') then
        plan.at_ms = row.state == 'scheduled' and row.at_ms or batch.now_ms
        plan.due_ms = plan.due_ms or due_ms(Q, plan.state, holder)
    end
    plans[row.lock] = plan
    return 'r'
end

-- A task of this very batch is replaced before it is stored.
local function replace_in_batch(batch, first, i)
    local row, old = batch.tasks[i], batch.tasks[first]
    old.message = replace_data(old.message or ARGV[batch.messages + first],
        ARGV[batch.messages + i])
    if old.fixed ~= 'x' then
        old.lock_ms = math.max(tonumber(old.lock_ms), tonumber(row.lock_ms))
    end
    if row.policy == 'b' and old.state == 'scheduled' then
        local at_ms = row.state == 'scheduled' and row.at_ms or batch.now_ms
        old.options = moved_options(old.options, '%d+ %d+ %d+ %d+ %d+ %d+', at_ms - old.at_ms) or
            old.options
        old.at_ms = at_ms
    end
end

local function replace_write(batch)
    local call, Q = redis.call, batch.Q
    for lock, plan in pairs(batch.plans) do
        call('HSET', Q .. 't:' .. plan.id, 'msg', plan.message)
        if plan.at_ms then
            local exact_ms = tonumber(plan.at_ms)
            call('ZADD', Q .. plan.state, string.format('%.0f', math.ceil(exact_ms / 1000)),
                plan.id)
            call('ZADD', Q .. 'quern:due', plan.at_ms, plan.id)
            local options = moved_options(plan.options, '%d+ %d+ %d+ %d+ %d+ %d+ %d+',
                exact_ms - plan.due_ms)
            if options then
                call('HSET', Q .. 't:' .. plan.id, 'quern_opts', options)
            end
        end
        local left = call('PTTL', lock)
        if not plan.is_fixed and left ~= -1 and left < plan.lock_ms then
            call('SET', lock, plan.id, 'PX', string.format('%.0f', plan.lock_ms))
        end
    end
end

policies = {plan = replace_plan, in_batch = replace_in_batch, write = replace_write}
