-- lease.lua - takes runs for a worker from all its queues.
--
-- KEYS = prefixes of the queues. The session is kept at the first.
-- ARGV: session, sequence, more (1: a further part of the same request), room, strict (1 or 0),
--   lease_ms, start_count, suspect_max, late_max, three random digits, worker id, then for each
--   queue: quota, weight.
-- Reply: now in ms, {paused, streak or nil, for each queue}, then for each part of the request
--   {first token, a list for each queue}. A list has four places a run: id, message (nil: the lease
--   is over by now), quern_run, "quern_opts;quern_past" or nil. The n-th run of a part, over all
--   its lists, has the n-th fence, and a token that is 1000 more than the one before.
--
-- Of each queue `want` tasks are read, from the head on; what a queue could not give is redrawn
-- among the others (src/task/choice.c, design.md 4.2). Ids without task are dropped. A task with a
-- crash on record is passed over when there were suspect_max of them already. A task past its
-- deadline, where our own fields tell it, does not count for the room: the caller archives it.
-- include: lib_session.lua
local call, pcall_ = redis.call, redis.pcall
local match, format = string.match, string.format
local scan_max = 512
local room, late_left = tonumber(ARGV[4]), tonumber(ARGV[9])
local suspects_left = tonumber(ARGV[8])
local digits = ARGV[10]
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
local now_ms_text = format('%.0f', now_ms)
local lease_ms = tonumber(ARGV[6])

-- The state of the queues; fence: the next one to give.
local queues, info, fence = {}, {}, now_us
for i, prefix in ipairs(KEYS) do
    local paused = call('EXISTS', prefix .. 'paused')
    local meta = call('HMGET', prefix .. 'quern:meta', 'fence', 'streak')
    info[2 * i - 1], info[2 * i] = paused, meta[2]
    if meta[1] and tonumber(meta[1]) >= fence then
        fence = meta[1] + 1
    end
    queues[i] = {prefix = prefix, tasks = prefix .. 't:', list = prefix .. 'pending', empty = paused == 1,
        want = tonumber(ARGV[10 + 2 * i]), weight = tonumber(ARGV[11 + 2 * i]),
        read = 0, cut = 0, count = 0, skipped = {}, ids = {}, messages = {}, sinces = {}, extras = {}}
end
if room == 0 then
    return {now_ms_text, info}
end

local function fields_of(queue, id)
    return pcall_('HMGET', queue.tasks .. id, 'msg', 'pending_since', 'state', 'quern_opts',
        'quern_past', 'quern_run')
end

-- A replay: which of the runs are still ours?
local session_key = KEYS[1] .. 'quern:s:' .. ARGV[1] .. ':l'
local kept = session_find(session_key, ARGV[2])
local parts = kept and cmsgpack.unpack(kept) or {}
if kept and ARGV[3] == '0' then
    local reply = {now_ms_text, info}
    for _, part in ipairs(parts) do
        local next_fence = tonumber(string.sub(part[1], 1, -4))
        local lists = {part[1]}
        for i, queue in ipairs(queues) do
            local list = {}
            for _, id in ipairs(part[i + 1]) do
                local f = fields_of(queue, id)
                local ours = f[3] == 'active' and f[2] == format('%.0f', next_fence) .. string.sub(part[1], -3)
                local n = #list
                list[n + 1], list[n + 2], list[n + 3] = id, ours and f[1], f[6]
                list[n + 4] = ours and (f[4] or f[5]) and (f[4] or '') .. ';' .. (f[5] or '')
                next_fence = next_fence + 1
            end
            lists[i + 1] = list
        end
        reply[#reply + 1] = lists
    end
    return reply
end

-- In pending although it is somewhere else: damage. Then the other place is right.
local function is_elsewhere(queue, id, state)
    if state == 'active' then
        return call('ZSCORE', queue.prefix .. 'lease', id)
    end
    return match(state, '^%l+$') and call('ZSCORE', queue.prefix .. state, id)
end

local seen = {}
local function read(queue, want)
    local found = 0
    while found < want and not queue.empty and late_left > 0 do
        local n = math.min(want - found, scan_max - queue.read)
        local heads = call('LRANGE', queue.list, -(queue.read + n), -(queue.read + 1))
        for k = #heads, 1, -1 do
            local id = heads[k]
            local f = fields_of(queue, id)
            local message, opts, past, since = f[1], f[4], f[5], f[2] or '0'
            local is_late, is_suspect
            if opts or past then
                local deadline = opts and match(opts, '^%d+ %d+ (%d+)')
                is_late = deadline and deadline ~= '0' and tonumber(deadline) <= now_ms
                is_suspect = past and match(past, '^[1-9]') and not is_late
                local old_since = past and match(past, '^%d+ %d+ %d+ %d+ %d+ ([1-9]%d*)')
                since = old_since or since
            end
            queue.read = queue.read + 1
            if not message or seen[id] == queue or f[3] ~= 'pending' and f[3] and is_elsewhere(queue, id, f[3]) then
                queue.cut = queue.read
            elseif is_suspect and suspects_left <= 0 then
                queue.skipped[#queue.skipped + 1] = {queue.read, id}
            else
                local c = queue.count + 1
                queue.count, queue.cut = c, queue.read
                queue.ids[c], queue.messages[c], queue.sinces[c] = id, message, since
                queue.extras[c] = (opts or past) and (opts or '') .. ';' .. (past or '')
                seen[id] = queue
                if f[6] then
                    queue.reruns = queue.reruns or {}
                    queue.reruns[#queue.reruns + 1] = id
                end
                if is_late then
                    late_left = late_left - 1
                else
                    found = found + 1
                    if is_suspect then
                        suspects_left = suspects_left - 1
                    end
                end
            end
        end
        queue.empty = #heads < n or queue.read >= scan_max
    end
    return found
end

-- qn_choice_redraw of src/task/choice.c: by weight, the rest to the largest remainders.
local function redraw(missing)
    local sum = 0
    for _, queue in ipairs(queues) do
        queue.share = queue.empty and 0 or queue.weight
        sum = sum + queue.share
    end
    if sum == 0 then
        return false
    end
    local placed = 0
    for _, queue in ipairs(queues) do
        local exact = missing * queue.share
        queue.want = math.floor(exact / sum)
        queue.rest = exact % sum
        placed = placed + queue.want
    end
    while placed < missing do
        local best = queues[1]
        for _, queue in ipairs(queues) do
            if queue.rest > best.rest or queue.rest == best.rest and queue.share > best.share then
                best = queue
            end
        end
        best.rest = best.rest - sum
        best.want = best.want + 1
        placed = placed + 1
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
            missing = missing - read(queue, math.min(queue.want, missing))
            queue.want = 0
        end
    until missing <= 0 or late_left <= 0 or not redraw(missing)
end

-- Writing. The first command changes nothing, but lets the others run when memory is out.
local until_ms = now_ms + lease_ms
local score = format('%.0f', math.ceil(until_ms / 1000))
local until_text = ' ' .. format('%.0f', until_ms) .. ' ' .. ARGV[11]
local starts_left = tonumber(ARGV[7])
local part = {format('%.0f', fence) .. digits}
local lists = {part[1]}
local given = 0
for _, queue in ipairs(queues) do
    if queue.count > 0 then
        call('LLEN', queue.prefix .. 'active')
        call('ZCARD', queue.prefix .. 'lease')
    end
end
for i, queue in ipairs(queues) do
    local ids, scores, list = queue.ids, {}, {}
    if queue.cut > 0 then
        call('ZREM', queue.prefix .. 'lease', '')
    end
    for k = 1, queue.count do
        local id = ids[k]
        local token = format('%.0f', fence + given) .. digits
        local run
        if starts_left > 0 then
            run = '1 ' .. now_ms_text .. ' ' .. queue.sinces[k] .. until_text
            starts_left = starts_left - 1
        else
            run = '0 0 ' .. queue.sinces[k] .. until_text
        end
        call('HSET', queue.tasks .. id, 'state', 'active', 'pending_since', token, 'quern_run', run)
        given = given + 1
        scores[2 * k - 1], scores[2 * k] = score, id
        list[4 * k - 3], list[4 * k - 2], list[4 * k - 1] = id, queue.messages[k], run
        list[4 * k] = queue.extras[k]
    end
    if queue.cut > 0 then
        call('LTRIM', queue.list, 0, -(queue.cut + 1))
        local back = {}
        for s = #queue.skipped, 1, -1 do
            if queue.skipped[s][1] < queue.cut then
                back[#back + 1] = queue.skipped[s][2]
            end
        end
        if #back > 0 then
            call('RPUSH', queue.list, unpack(back))
        end
    end
    if queue.count > 0 then
        call('LPUSH', queue.prefix .. 'active', unpack(ids))
        call('ZADD', queue.prefix .. 'lease', unpack(scores))
        call('HSET', queue.prefix .. 'quern:meta', 'fence', format('%.0f', fence + given - 1))
    end
    for _, id in ipairs(queue.reruns or {}) do
        call('HDEL', queue.tasks .. id, 'quern_cancel', 'quern_progress')
    end
    part[i + 1], lists[i + 1] = ids, list
end
if given > 0 then
    parts[#parts + 1] = part
    session_keep(session_key, ARGV[2], cmsgpack.pack(parts))
end
return {now_ms_text, info, lists}
