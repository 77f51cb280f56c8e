-- doctor_task.lua - checks one suspect task in all places at once, and repairs it.
--
-- KEYS: prefix of the queue. ARGV: 1 id, 2 "1" to repair, 3 its message without payload if that is
-- wrong (else ""), 4 why, 5 the container in which it was seen or "", 6 the group that its message
-- names or "", 7 when it was archived, or its retention ends, in seconds ("": not known), 8 what
-- has to be put behind the message to make it right; "": it is unreadable.
-- Reply: for each finding: invariant, text.
--
-- A task that is in several places stays in the place of its state, else in the first of these:
-- active, pending, retry, scheduled, archived, completed. A task without a place gets that of its
-- state. An id without a message is not a task: its entries are removed. A message that cannot be
-- read goes to quern:corrupt.
local Q = KEYS[1]
local id = ARGV[1]
local hash = Q .. 't:' .. id
local time = redis.call('TIME')
local now_s = time[1]
local now_ns = time[1] .. string.format('%06d000', time[2])
-- include: lib_message.lua
-- include: lib_due.lua
-- include: lib_lock.lua
-- include: limits/lib_lanes.lua
-- include: limits/lib_aside.lua

local reply = {}
local function report(invariant, text)
    reply[#reply + 1] = invariant
    reply[#reply + 1] = text
end

-- --- Where it is ---

local kind = redis.call('TYPE', hash).ok
local fields = {}
if kind == 'hash' then
    fields = redis.call('HMGET', hash, 'msg', 'state', 'group', 'unique_key', 'pending_since',
        'quern_past', 'quern_run', 'quern_aside', 'quern_opts')
end
local message, state, group, lock, since, past, run, aside, opts = unpack(fields, 1, 9)
local places = {} -- {name, key, type, how often}, best first

local looked = {}
local function look(name, key, list)
    local count
    if looked[key] then
        return
    end
    looked[key] = true
    if list then
        -- A task that SCAN found is mostly a new one, which is at the left; how often does not
        -- matter.
        count = #redis.call('LPOS', key, id, 'COUNT', ARGV[5] == '' and 1 or 0)
    else
        count = redis.call('ZSCORE', key, id) and 1 or 0
    end
    if count > 0 then
        places[#places + 1] = {name = name, key = key, list = list, count = count}
    end
end

look('active', Q .. 'active', true)
look('pending', Q .. 'pending', true)
for _, name in ipairs({'retry', 'scheduled', 'archived', 'completed'}) do
    look(name, Q .. name)
end
local groups = {}
for _, name in ipairs({group or '', ARGV[6], string.match(ARGV[5], '^g:(.*)$') or ''}) do
    if name ~= '' and not groups[name] then
        groups[name] = true
        look('aggregating', Q .. 'g:' .. name)
    end
end
for _, key in ipairs(redis.call('ZRANGE', Q .. 'aggregation_sets', 0, 99)) do
    if string.sub(key, 1, #Q + 2) == Q .. 'g:' and redis.call('TYPE', key).ok == 'zset' then
        look('aggregating', key)
    end
end
local lease = redis.call('ZSCORE', Q .. 'lease', id)

local function names()
    local list = {}
    for i, place in ipairs(places) do
        list[i] = place.name
    end
    return table.concat(list, ' and ')
end

-- --- Changing it ---

local function take_out(place)
    redis.call(place.list and 'LREM' or 'ZREM', place.key, unpack(place.list and {0, id} or {id}))
end
local function take_out_everywhere()
    for _, place in ipairs(places) do
        take_out(place)
    end
    redis.call('ZREM', Q .. 'lease', id)
    redis.call('ZREM', Q .. 'quern:due', id)
end
local function free_lock()
    if owns_lock(id, lock) then
        redis.call('DEL', lock)
    end
end

-- To the head of pending, because the broker lost writes.
local function to_pending()
    local n = {}
    for number in string.gmatch(past or '', '%d+') do
        n[#n + 1] = number
    end
    local run_since = string.match(run or '', '^%d+ %d+ (%d+)') or '0'
    local token = since and #since == 19 and state == 'active' and since
    redis.call('HSET', hash, 'state', 'pending', 'quern_past',
        string.format('%s %s %s 0 @QUERN_CAUSE_BROKER_LOST@ 0', n[1] or '0', n[2] or '0',
            n[3] or '0'))
    if token or not since then
        redis.call('HSET', hash, 'pending_since', run_since ~= '0' and run_since or now_ns)
    end
    if token then
        redis.call('HSET', hash, 'quern_place', string.sub(token, 1, 16))
    end
    redis.call('HDEL', hash, 'quern_run', 'quern_progress', 'quern_cancel')
    redis.call('RPUSH', Q .. 'pending', id)
end

local function come_back()
    local known = ARGV[7] ~= '' and ARGV[7] or now_s
    if state == 'scheduled' or state == 'retry' then
        local due_ms = tonumber(redis.call('ZSCORE', Q .. 'quern:due', id) or now_s * 1000)
        redis.call('ZADD', Q .. state, string.format('%.0f', math.ceil(due_ms / 1000)), id)
    elseif state == 'archived' or state == 'completed' then
        redis.call('ZADD', Q .. state, known, id)
    elseif state == 'aggregating' and next(groups) then
        local name = next(groups)
        redis.call('HSET', hash, 'group', name)
        redis.call('ZADD', Q .. 'g:' .. name, now_s, id)
        redis.call('SADD', Q .. 'groups', name)
    elseif state == 'active' or state == 'pending' or state == 'aggregating' then
        to_pending()
    else
        redis.call('HSET', hash, 'state', 'archived')
        redis.call('ZADD', Q .. 'archived', now_s, id)
    end
end

-- --- Judging ---

local repair = ARGV[2] == '1'

local function judge_foreign()
    report('I9', 'its key is a ' .. kind .. ', not a hash')
    if repair then
        take_out_everywhere()
        redis.call('RENAME', hash, Q .. 'quern:odd:' .. id)
    end
end

local function judge_ghost()
    if #places > 0 or lease then
        report('I2',
            (#places > 0 and 'in ' .. names() or 'has a lease') .. ', but there is no task')
    elseif kind == 'hash' then
        report('I2', 'its hash has no message, so there is no task')
    end
    if repair and #reply > 0 then
        take_out_everywhere()
        if kind == 'hash' then
            redis.call('DEL', hash)
        end
    end
end

local function judge_unreadable()
    report('I2', 'its message cannot be read: ' .. ARGV[4])
    if repair then
        redis.call('HSET', Q .. 'quern:corrupt', id, message)
        take_out_everywhere()
        free_lock()
        redis.call('DEL', hash)
    end
end

local function judge_nowhere()
    if lease and state == 'active' then
        report('I3', 'has a lease, but is not in active')
    else
        report('I2', 'its state is ' .. (state or 'missing') .. ', but it is nowhere')
    end
    if repair then
        redis.call('ZREM', Q .. 'lease', id)
        come_back()
    end
end

local function judge_placed()
    local reported = #reply
    local keep = places[1]
    for _, place in ipairs(places) do
        if place.name == state then
            keep = place
            break
        end
    end
    if #places > 1 then
        report('I1', 'in ' .. names())
    end
    if keep.count > 1 then
        report('I1', string.format('%d times in %s', keep.count, keep.name))
    end
    if keep.name ~= state then
        report('I2', 'its state is ' .. (state or 'missing') .. ', but it is in ' .. keep.name)
    end
    local to_head = keep.name == 'active' and not lease
    if to_head then
        report('I3', 'active without a lease')
    elseif keep.name ~= 'active' and lease then
        report('I3', keep.name .. ', but with a lease')
    end
    if not repair or #reply == reported then
        return
    end
    for _, place in ipairs(places) do
        if place ~= keep or to_head then
            take_out(place)
        elseif place.count > 1 then
            redis.call('LREM', place.key, place.count - 1, id)
        end
    end
    if keep.name ~= 'active' then
        redis.call('ZREM', Q .. 'lease', id)
    end
    if to_head then
        state = 'active'
        to_pending()
    elseif keep.name ~= state then
        redis.call('HSET', hash, 'state', keep.name)
    end
end

-- One that waits aside keeps its place; a lease has to look there.
local function judge_aside()
    if is_in_lane(Q, id, state, aside) then
        return
    end
    report('I8', 'waits aside for a limit or its turn, but is in no lane')
    if repair then
        local key = lane_key_of(opts)
        local limits = redis.call('HGET', Q .. 'quern:meta', 'limits')
        lane_put(Q, id, key .. '\31' .. lane_type_of(message),
            tonumber(string.match(aside, '^%d+') or now_s * 1000000), tonumber(now_s))
        redis.call('HSET', Q .. 'quern:meta', 'limits',
            (key ~= '' or limits == '3') and '3' or '2')
        redis.call('DEL', Q .. 'quern:lanes:idle')
    end
end

local function judge_index()
    local due_ms = redis.call('ZSCORE', Q .. 'quern:due', id)
    if due_ms and not due_is_valid(Q, id, tonumber(due_ms)) then
        report('I8', 'in quern:due, but not delayed until then')
        if repair then
            redis.call('ZREM', Q .. 'quern:due', id)
        end
    end
end

-- The last field of a number counts.
local function judge_message()
    report('I7', ARGV[4])
    if repair then
        redis.call('HSET', hash, 'msg', message .. ARGV[8])
    end
end

local wrong = message and ARGV[3] ~= '' and without_payload(message) == ARGV[3]
if wrong and ARGV[8] ~= '' then
    judge_message()
end
if ARGV[5] == 'quern:due' then
    judge_index()
elseif kind ~= 'hash' and kind ~= 'none' then
    judge_foreign()
elseif not message or message == '' then
    judge_ghost()
elseif wrong and ARGV[8] == '' then
    judge_unreadable()
elseif #places == 0 then
    judge_nowhere()
else
    judge_placed()
    if aside and state == 'scheduled' and #places == 1 and places[1].name == state then
        judge_aside()
    end
end
return reply
