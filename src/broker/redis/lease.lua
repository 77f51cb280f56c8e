-- lease.lua - takes runs for a worker from all its queues.
--
-- KEYS: prefixes of the queues. The session is kept at the first.
-- ARGV: session, sequence, how many parts of this request came before, room, strict (1 or 0),
--   lease_ms, start_count, suspect_max, late_max, three random digits, worker id, then for each
--   queue: quota, weight.
-- Reply: now in ms, {paused, streak or nil, for each queue}, then for each part of the request
--   {first token, a list for each queue, 1 if it ended early and there may be more}. A list has
--   four places a run: id, message (nil: the lease
--   is over by now), quern_run, "quern_opts;quern_past" or nil. The n-th run of a part, over all
--   its lists, has the n-th fence, and so a token that is 1000 more than the one before.
--
-- Of each queue `want` tasks are read, from the head on; what a queue could not give is redrawn
-- among the others (src/task/choice.c, design.md 4.2). Ids without task are dropped. A task with a
-- crash on record is passed over when there were suspect_max of them already. A task past its
-- deadline, where our own fields tell it, does not count for the room: the caller archives it.
-- When the messages come to BYTES_MAX the part ends, with the one that passes it.
-- A queue with a key of the wrong type gives nothing, and does not keep the others from giving.
-- include: lib_session.lua
local call, try = redis.call, redis.pcall
local match, format, floor, min = string.match, string.format, math.floor, math.min
local READ_MAX = 512
local BYTES_MAX = 8388608 -- QN_BATCH_BYTES_MAX of limits.h
local bytes_left = BYTES_MAX
local room, late_left, suspects_left = tonumber(ARGV[4]), tonumber(ARGV[9]), tonumber(ARGV[8])
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = floor(now_us / 1000)
local now_text = format('%d', now_ms)

-- The queues as they are, and the next fence: microseconds, unless the clock went back.
local queues, info, fence = {}, {}, now_us
for i, prefix in ipairs(KEYS) do
    local paused = call('EXISTS', prefix .. 'paused')
    local meta = try('HMGET', prefix .. 'quern:meta', 'fence', 'streak')
    info[2 * i - 1], info[2 * i] = paused, meta[2] or false
    if meta[1] and tonumber(meta[1]) >= fence then
        fence = meta[1] + 1
    end
    -- read: ids looked at; cut: those of them that leave pending, but for the passed
    queues[i] = {prefix = prefix, empty = paused == 1 or meta.err,
        want = tonumber(ARGV[10 + 2 * i]), weight = tonumber(ARGV[11 + 2 * i]),
        read = 0, cut = 0, count = 0, passed = {}, reruns = {}, ids = {}, names = {},
        messages = {}, sinces = {}, extras = {}, late = {},
        seen = {}}
end
if room == 0 then
    return {now_text, info}
end

-- A replay: the same runs, as far as they are still under their tokens.
local session_key = KEYS[1] .. 'quern:s:' .. ARGV[1] .. ':l'
local kept = session_find(session_key, ARGV[2])
local parts = kept and cmsgpack.unpack(kept) or {}
if kept and #parts ~= tonumber(ARGV[3]) then
    local reply = {now_text, info}
    for p, part in ipairs(parts) do
        local lists, token_format = {part[1]}, '%d' .. string.sub(part[1], -3)
        local next_fence = tonumber(string.sub(part[1], 1, -4))
        for i, queue in ipairs(queues) do
            local list = {}
            for k, id in ipairs(part[i + 1]) do
                local f = try('HMGET', queue.prefix .. 't:' .. id, 'msg', 'pending_since', 'state',
                    'quern_opts', 'quern_past', 'quern_run')
                local ours = f[3] == 'active' and f[2] == format(token_format, next_fence)
                local extra = ours and (f[4] or f[5]) and (f[4] or '') .. ';' .. (f[5] or '')
                list[4 * k - 3], list[4 * k - 2] = id, ours and f[1] or false
                list[4 * k - 1], list[4 * k] = f[6] or false, extra
                next_fence = next_fence + 1
            end
            lists[i + 1] = list
        end
        reply[p + 2] = lists
    end
    return reply
end

-- An id in pending whose task is somewhere else is a leftover; the task is not leased from there.
local function is_elsewhere(queue, id, state)
    local place = state == 'active' and 'lease' or match(state, '^%l+$') or 'lease'
    return type(try('ZSCORE', queue.prefix .. place, id)) == 'string'
end

-- Whether what will be written has the right types; a queue where it has not gives nothing. ZREM is
-- the write that lets the others happen when memory is out; it changes nothing.
local function is_sound(queue)
    if queue.sound == nil then
        local lease = try('ZREM', queue.prefix .. 'lease', '')
        local active = try('LLEN', queue.prefix .. 'active')
        queue.sound = type(lease) == 'number' and type(active) == 'number'
    end
    return queue.sound
end

-- What our own fields say: whether it is late, a suspect, and since when it has been pending.
local function look_closer(opts, past, since)
    local deadline = opts and match(opts, '^%d+ %d+ ([1-9]%d*)')
    local is_late = deadline and tonumber(deadline) <= now_ms
    local is_suspect = past and match(past, '^[1-9]') and not is_late
    local old_since = past and match(past, '^%d+ %d+ %d+ %d+ %d+ ([1-9]%d*)')
    return is_late, is_suspect, old_since or since
end

-- Reads up to `want` tasks from where the last reading of the queue ended; returns how many.
local function read(queue, want)
    local found, seen = 0, queue.seen
    local ids, names, messages = queue.ids, queue.names, queue.messages
    local sinces, extras = queue.sinces, queue.extras
    local task_prefix = queue.prefix .. 't:'
    while found < want and not queue.empty and late_left > 0 and bytes_left > 0 do
        local n = min(want - found, READ_MAX - queue.read)
        local heads = try('LRANGE', queue.prefix .. 'pending', -queue.read - n, -queue.read - 1)
        if heads.err or heads[1] and not is_sound(queue) then
            queue.empty = true
            return found
        end
        local count, cut, first = queue.count, queue.cut, queue.read + #heads + 1
        local last = 1
        for k = #heads, 1, -1 do
            local id = heads[k]
            local name = task_prefix .. id
            local f = try('HMGET', name, 'msg', 'pending_since', 'state', 'quern_opts',
                'quern_past', 'quern_run')
            local message, since, opts, past = f[1], f[2] or '0', f[4], f[5]
            local is_late, is_suspect
            if opts or past then
                is_late, is_suspect, since = look_closer(opts, past, since)
            end
            if not message or seen[name] or
                -- bug GHOST_LEASED: if seen[name] or
                f[3] ~= 'pending' and f[3] and is_elsewhere(queue, id, f[3]) then
                cut = first - k
            elseif is_suspect and suspects_left <= 0 then
                queue.passed[#queue.passed + 1] = {first - k, id}
            else
                count, cut = count + 1, first - k
                ids[count], names[count], messages[count], sinces[count] = id, name, message, since
                extras[count] = (opts or past) and (opts or '') .. ';' .. (past or '')
                seen[name] = true
                if f[6] then
                    queue.reruns[#queue.reruns + 1] = name
                end
                if is_late then
                    late_left = late_left - 1
                    queue.late[count] = true
                else
                    found = found + 1
                    suspects_left = suspects_left - (is_suspect and 1 or 0)
                end
                bytes_left = bytes_left - #message
                if bytes_left <= 0 then
                    last = k
                    break
                end
            end
        end
        queue.count, queue.cut, queue.read = count, cut, first - last
        queue.empty = #heads < n or queue.read >= READ_MAX
    end
    return found
end

-- qn_choice_redraw of src/task/choice.c: by weight, the rest to the largest remainders.
local function redraw(missing)
    local sum, placed = 0, 0
    for _, queue in ipairs(queues) do
        queue.share = queue.empty and 0 or queue.weight
        sum = sum + queue.share
    end
    if sum == 0 then
        return false
    end
    for _, queue in ipairs(queues) do
        queue.want = floor(missing * queue.share / sum)
        queue.rest = missing * queue.share % sum
        placed = placed + queue.want
    end
    for _ = placed + 1, missing do
        local best = queues[1]
        for _, queue in ipairs(queues) do
            if queue.rest > best.rest or queue.rest == best.rest and queue.share > best.share then
                best = queue
            end
        end
        best.rest, best.want = best.rest - sum, best.want + 1
    end
    return true
end

local missing = room
if ARGV[5] == '1' then
    for _, queue in ipairs(queues) do
        missing = missing - read(queue, missing)
    end
else
    repeat
        for _, queue in ipairs(queues) do
            missing = missing - read(queue, min(queue.want, missing))
            queue.want = 0
        end
    until missing <= 0 or late_left <= 0 or bytes_left <= 0 or not redraw(missing)
end

-- From here on it is written.
local until_ms = now_ms + tonumber(ARGV[6])
local score = format('%d', math.ceil(until_ms / 1000))
local tail = format(' %d ', until_ms) .. ARGV[11]
local token_format = '%d' .. ARGV[10]
local starts_left, given = tonumber(ARGV[7]), 0
local part = {format(token_format, fence)}
local lists = {part[1]}
local head_started, head_ahead = '1 ' .. now_text .. ' ', '0 0 '

-- A zset of up to 128 short members is one block, and each access walks through it; a long member
-- makes a tree of it for as long as it exists. So many leases begin with one, which then goes: with
-- 64 tasks active that saves a quarter of the time.
local LONG = string.rep('\0', 65)
local function add_leases(queue, scores)
    local key = queue.prefix .. 'lease'
    call('ZADD', key, unpack(scores))
    if scores[2] == LONG then
        call('ZREM', key, LONG)
    end
end

local function lease(queue)
    local ids, names, messages, sinces = queue.ids, queue.names, queue.messages, queue.sinces
    local late, extras, list = queue.late, queue.extras, {}
    local scores = queue.count >= 16 and {score, LONG} or {}
    local more = #scores / 2
    for k = 1, queue.count do
        local head, id = head_ahead, ids[k]
        if starts_left > 0 and not late[k] then
            head, starts_left = head_started, starts_left - 1
        end
        local run = head .. sinces[k] .. tail
        call('HSET', names[k], 'state', 'active', 'pending_since', format(token_format, fence),
            'quern_run', run)
        fence = fence + 1
        scores[2 * (k + more) - 1], scores[2 * (k + more)] = score, id
        list[4 * k - 3], list[4 * k - 2] = id, messages[k]
        list[4 * k - 1], list[4 * k] = run, extras[k]
    end
    for _, name in ipairs(queue.reruns) do
        call('HDEL', name, 'quern_cancel', 'quern_progress')
    end
    if queue.count > 0 then
        call('LPUSH', queue.prefix .. 'active', unpack(ids))
        add_leases(queue, scores)
        call('HSET', queue.prefix .. 'quern:meta', 'fence', format('%d', fence - 1))
    end
    given = given + queue.count
    return list
end

-- What was read leaves pending; the passed ones among it go back to where they were.
local function cut(queue)
    local back = {}
    for i = #queue.passed, 1, -1 do
        if queue.passed[i][1] < queue.cut then
            back[#back + 1] = queue.passed[i][2]
        end
    end
    call('LTRIM', queue.prefix .. 'pending', 0, -queue.cut - 1)
    if #back > 0 then
        call('RPUSH', queue.prefix .. 'pending', unpack(back))
    end
end

for i, queue in ipairs(queues) do
    lists[i + 1], part[i + 1] = lease(queue), queue.ids
    if queue.cut > 0 then
        cut(queue)
    end
end
local early = bytes_left <= 0
for _, queue in ipairs(queues) do
    early = early or queue.read >= READ_MAX and queue.cut > 0
end
if early then
    lists[#KEYS + 2] = 1
end
if given > 0 then
    parts[#parts + 1] = part
    session_keep(session_key, ARGV[2], cmsgpack.pack(parts))
end
return {now_text, info, lists}
