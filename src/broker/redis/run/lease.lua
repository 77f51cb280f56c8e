-- lease.lua - leases runs for a worker from all its queues.
--
-- KEYS: prefixes of the queues. The session is kept at the first.
-- ARGV: session, sequence, how many parts of this request came before (-1: perhaps all of it, it is
--   sent again), room, lease_ms, start_count, three random digits, worker id, the field of the
--   brake on its host, and "solo slots held held held": what to do with the solo lock ("0":
--   nothing, "a": ask for it, or "k" keep, "r" run, "e" end, with the number of the queue), and
--   isolation; then, unless the queues count in their order, for each queue: quota, weight.
-- Reply: the head, or where runs were leased {head, then for each part of the request: its runs,
--   their since_ns, and of each run what it holds}.
--   Head: "now_ms early solo", early 1: there may be more; solo: of which queue the solo lock was
--   taken or kept (numbers begin with 1; 0: of none); then of each queue with anything to
--   report " number paused deaths braked wait_ms".
--   Runs: packed {first token, how many have started, then of each queue that gave some: its
--   number, how many, their ids}. The n-th run of a part has the n-th fence, so a token that is
--   1000 more than the one before.
--   since_ns: 19 digits a run, one after the other.
--   What it holds: its message (nil: the lease has expired by now); and where there is more, a
--   number, 1 for one that has not started (whatever the head counts), 2 for one with our fields,
--   3 for both, and then with 2 "quern_opts;quern_past".
--
-- Of each queue `want` tasks are read, from the head on; the slots that a queue could not fill are
-- redrawn among the others (src/task/choice.c). Ids without task are dropped. A charged task that
-- may not run now is skipped (lib_charged.lua); if the queue is not yet marked as having any, the
-- part ends before it. A task past its deadline by our own fields, or one that has not started in
-- time, does not use a slot: the caller archives it. When the messages come to BYTES_MAX the part
-- ends, with the one that passes it. A queue with a key of the wrong type gives nothing, and does
-- not affect the others.
--
-- An idle worker waits for this with one task, so rare data are made only when they are needed:
-- each table, function and conversion of a number costs as much as a part of a command.
-- include: lib_session.lua
local call, try, sub = redis.call, redis.pcall, string.sub
local ARGV, queue_count = ARGV, #KEYS

-- The next fence: microseconds, unless the clock went back. As texts.
local time = call('TIME')
local micros = time[2]
if #micros < 6 then
    micros = sub('00000' .. micros, -6)
end
local fence, now_text = time[1] .. micros, time[1] .. sub(micros, 1, 3)

-- The queues as they are. `queues` has false for one that gives nothing, nil for one not yet read;
-- `odd_queues` has those that are paused, braked, or have charged tasks or limits.
local queues, odd_queues, any_limited, any_lanes = {}, nil, nil, nil
local brake_field = ARGV[9]
-- bug BRAKE_EVERYWHERE: local brake_field = 'h:'
-- include: limits/lib_limit_of_all.lua
local names = {} -- one command shows that no queue is paused, as is usual
for i = 1, queue_count do
    names[i] = KEYS[i] .. 'paused'
end
local any_paused = call('EXISTS', unpack(names))
for i = 1, queue_count do
    local prefix = KEYS[i]
    local paused = any_paused > 0 and call('EXISTS', names[i]) or 0
    local meta = try('HMGET', prefix .. 'quern:meta', 'fence', brake_field, 'charged', 'limits')
    local last, brake, charged, limited = meta[1], meta[2], meta[3], meta[4]
    if not last then
        limited = note_limits_of_all(prefix) or limited
        last = try('HGET', prefix .. 'quern:meta', 'moved') -- see lib_change.lua
        last = type(last) == 'string' and last
    end
    if paused == 1 or charged or limited or brake and sub(brake, 14, 16) ~= ' 0 ' then
        odd_queues = odd_queues or {}
        odd_queues[i] = {paused = paused, brake = brake, charged = charged, limited = limited}
        any_limited = any_limited or limited
        any_lanes = any_lanes or limited and limited ~= '1'
    end
    -- No lease wrote anything else than a number, nor one beyond 2^53 (reached in the year 2255).
    if last and (#last > #fence or #last == #fence and last >= fence) and
        string.find(last, '^[1-9]%d*$') and tonumber(last) <= 9e15 then
        fence = string.format('%d', last + 1)
    end
    if paused == 1 or meta.err then
        queues[i] = false
    end
end
local room = tonumber(ARGV[4])
local function since_text(since)
    return sub('0000000000000000000' .. since, -19)
end
-- An id in pending whose task is somewhere else is a leftover; the task is not leased from there.
local function is_elsewhere(prefix, id, state)
    local place = state == 'active' and 'lease' or string.match(state, '^%l+$') or 'lease'
    return type(redis.pcall('ZSCORE', prefix .. place, id)) == 'string'
end

-- A replay: the same runs, as far as they are still under their tokens, whatever the room is now.
-- An empty answer is not kept the first time: a worker that did not get it may as well lease now,
-- and that is kept. For a request sent again it is, so that a late copy leases nothing.
local session_key = KEYS[1] .. 'quern:s:' .. ARGV[1] .. ':l'
local kept = session_find(session_key, ARGV[2])
-- A request for the solo lock ("a") is useless if no queue has charged tasks.
local rare, limits, lanes, solo = nil, nil, nil, string.byte(ARGV[10])
local look_closer, begin, read, late_left, bytes_left, seen_names
if odd_queues or solo ~= 48 and solo ~= 97 then
    local now_ms = tonumber(now_text)
-- include: lib_level.lua
-- include: lib_deaths.lua
-- include: lib_charged.lua
-- include: lib_lease.lua
    if any_limited then
-- include: limits/lib_tokens.lua
-- include: limits/lib_limits.lua
-- include: limits/lib_lease_limits.lua
        if any_lanes then
-- include: limits/lib_lanes.lua
-- include: limits/lib_holders.lua
-- include: limits/lib_gates.lua
-- include: limits/lib_lease_lanes.lua
        end
    end
end
local is_again = ARGV[3] == '-1'
if room == 0 and not rare and not kept and not is_again or kept == '' then
    return now_text .. (rare and rare.head(' 0') or ' 0 0')
elseif kept then
    local parts = {cmsgpack.unpack(kept)}
    local reply = {''}
    for _, part in ipairs(#parts ~= tonumber(ARGV[3]) and parts or {}) do
        local sinces, held, started_count, at = {}, {}, 0, 3
        local token_format = '%d' .. sub(part[1], -3)
        local next_fence = tonumber(sub(part[1], 1, -4))
        while at < #part do
            for k = at + 2, at + 1 + part[at + 1] do
                local f = try('HMGET', KEYS[part[at]] .. 't:' .. part[k], 'msg', 'pending_since',
                    'state', 'quern_opts', 'quern_past', 'quern_run')
                local ours = f[3] == 'active' and f[2] == string.format(token_format, next_fence)
                local started, since = string.match(ours and f[6] or '', '^(%d+) %d+ (%d+)')
                local extra = ours and (f[4] or f[5]) and (f[4] or '') .. ';' .. (f[5] or '')
                held[#held + 1] = ours and f[1] or false
                held[#held + 1] = (started == '1' and 0 or 1) + (extra and 2 or 0)
                held[#held + 1] = extra or nil
                started_count = started_count + (started == '1' and 1 or 0)
                sinces[#sinces + 1] = since_text(since or '0')
                next_fence = next_fence + 1
            end
            at = at + 2 + part[at + 1]
        end
        part[2] = started_count
        reply[#reply + 1] = cmsgpack.pack(part)
        reply[#reply + 1] = table.concat(sinces)
        for _, item in ipairs(held) do
            reply[#reply + 1] = item
        end
    end
    if reply[2] then
        reply[1] = now_text .. (rare and rare.head(' 0') or ' 0 0')
        return reply
    end
end
if rare and rare.step(kept) then
    if is_again then
        session_keep(session_key, ARGV[2], '')
    end
    return now_text .. rare.head(' 0')
end

-- The data of our own fields: whether it is late, of a charged task its level (any value where no
-- queue is noted to have any), and since when it has been pending.
function look_closer(opts, past, since)
    local match = string.match
    local deadline = opts and match(opts, '^%d+ %d+ ([1-9]%d*)')
    local start_by = opts and match(opts, '^%d+ %d+ %d+ %d+ %d+ %d+ %d+ ([1-9]%d*)')
    local is_late = deadline and tonumber(deadline) <= tonumber(now_text) or
        start_by and tonumber(start_by) <= tonumber(now_text)
    local level = past and not is_late and match(past, '^[1-9]%d*')
    if level and rare then
        level = rare.level_of(past)
    end
    local old_since = past and match(past, '^%d+ %d+ %d+ %d+ %d+ ([1-9]%d*)')
    return is_late, level, old_since or since
end

-- The data of a queue; false if a key that will be written has the wrong type. After this ZREM,
-- which changes nothing, Redis allows the other writes when memory is full.
function begin(i, prefix)
    local lease = redis.pcall('ZREM', prefix .. 'lease', '')
    local active = redis.pcall('LLEN', prefix .. 'active')
    if type(lease) ~= 'number' or type(active) ~= 'number' then
        return false
    end
    -- read: ids read, behind the `skip` at the head that are known to be charged; cut: up to
    -- where some of them leave pending; ids and held have places for what the reply has before.
    return {skip = 0, read = 0, cut = 0, count = 0, ids = {'', 0, i, 0}, names = {}, sinces = {},
        seen = seen_names, held = {'', '', '', ''}, held_count = 3, is_read = false}
end

late_left, bytes_left, seen_names = @QN_BATCH_MAX@, @QN_BATCH_BYTES_MAX@, {}
local unnoted = nil -- a queue with charged tasks of which it is not noted that there are any

-- Checks tasks at the head of `pending`: `heads[k]` is the one at place `first` - k, so from the
-- end on. Returns how many may be leased, and the last k that was checked.
local function sort_out(i, heads, first)
    local try, prefix, queue, found = redis.pcall, KEYS[i], queues[i], 0
    local task_prefix = prefix .. 't:'
    local ids, names, sinces, held = queue.ids, queue.names, queue.sinces, queue.held
    local seen, count, held_count, cut = queue.seen, queue.count, queue.held_count, queue.cut
    local last = 1
    for k = #heads, 1, -1 do
        local id = heads[k]
        local name = task_prefix .. id
        local f = try('HMGET', name, 'msg', 'state', 'pending_since', 'quern_opts',
            'quern_past')
        local message, state, since, opts, past = f[1], f[2], f[3], f[4], f[5]
        local is_late, level
        if opts or past then
            is_late, level, since = look_closer(opts, past, since)
        end
        if not message or seen[name] or
            -- bug GHOST_LEASED: if seen[name] or
            state ~= 'pending' and state and is_elsewhere(prefix, id, state) then
            cut = first - k
        elseif level and not rare then
            last, unnoted = k + 1, i
            break
        elseif lanes and not level and lanes.stops(i, message, opts) then
            last, queue.is_sorting = k + 1, true
            break
        elseif level and (lanes and not lanes.admits(i, message, opts) or
            not rare.admit(level)) then
            queue.passed = queue.passed or {}
            -- bug CHARGED_NOT_OVERTAKEN: do break end
            queue.passed[#queue.passed + 1] = {at = first - k, id = id, level = level,
                since = since}
        else
            count, cut, held_count = count + 1, first - k, held_count + 1
            ids[count + 4], names[count], sinces[count] = id, name, since
            held[held_count], seen[name] = message, true
            bytes_left = bytes_left - #message
            if lanes then
                lanes.take(i, id, message, opts, is_late)
            end
            if is_late then
                late_left = late_left - 1
            else
                found = found + 1
            end
            if opts or past or not state or not since or #since ~= 19 then
                since = string.match(since or '', '^%d+$') or '0'
                sinces[count] = since_text(since)
                queue.odd = queue.odd or {}
                queue.odd[count] = {late = is_late, since = since, level = level,
                    may_have_run = not f[3] or not state, opts = opts}
                if opts or past then
                    held[held_count + 1] = is_late and 3 or 2
                    held[held_count + 2] = (opts or '') .. ';' .. (past or '')
                    held_count = held_count + 2
                end
            end
            if bytes_left <= 0 then
                last = k
                break
            end
        end
    end
    queue.cut, queue.count, queue.held_count = cut, count, held_count
    return found, last
end

-- Reads up to `want` tasks from where the last reading of the queue ended; returns how many.
-- in_turn: of a queue with lanes, those in pending only.
function read(i, want, in_turn)
    local READ_MAX = 512
    want = limits and not in_turn and limits.want(i, want) or want
    local try, prefix, queue, found = redis.pcall, KEYS[i], queues[i], 0
    if rare and queue == nil and want > 0 then
        queue = rare.open(i, begin, want)
        queues[i] = queue
        found = queue and queue.count or 0
    end
    if lanes and not in_turn and lanes.of[i] then
        return found + lanes.pick(i, want - found)
    end
    while found < want and queue ~= false and late_left > 0 and bytes_left > 0 and not unnoted do
        local before, n = queue and queue.read or 0, want - found
        if n > READ_MAX - before then
            n = READ_MAX - before
        end
        if queue then
            if queue.empty then
                return found
            end
            before = before + queue.skip
        end
        local from, to = -before - n, -before - 1
        if from == -room and to == -1 then
            from, to = '-' .. ARGV[4], '-1' -- mostly so; Redis prints numbers slowly
        end
        local heads = try('LRANGE', prefix .. 'pending', from, to)
        if not queue then
            queue = heads[1] and begin(i, prefix) or false
            queues[i] = queue
        end
        if not queue then
            return found
        end
        local first = before + #heads + 1
        local more, last = sort_out(i, heads, first)
        found = found + more
        queue.read = first - last - queue.skip
        queue.is_read = queue.read >= READ_MAX or queue.is_sorting
        queue.empty = #heads < n or queue.is_read
    end
    return found
end

local missing = room
if rare and rare.solo then
    read(rare.solo, 1)
elseif #ARGV == 10 then
    for i = 1, queue_count do
        missing = missing - read(i, missing)
    end
else
    -- As qn_choice_redraw of src/task/choice.c: to each queue the whole slots of its exact part,
    -- the rest to the largest remainders, on a tie to the heavier queue, then to the first.
    local wants, shares, rests = {}, {}, {}
    local function redraw()
        local sum, placed = 0, 0
        for i = 1, queue_count do
            local is_dry = queues[i] == false or queues[i] and queues[i].empty
            shares[i] = is_dry and 0 or tonumber(ARGV[10 + 2 * i])
            sum = sum + shares[i]
        end
        if sum == 0 then
            return false
        end
        for i = 1, queue_count do
            wants[i] = math.floor(missing * shares[i] / sum)
            rests[i] = missing * shares[i] % sum
            placed = placed + wants[i]
        end
        for _ = placed + 1, missing do
            local best = 1
            for i = 1, queue_count do
                if rests[i] > rests[best] or
                    rests[i] == rests[best] and shares[i] > shares[best] then
                    best = i
                end
            end
            rests[best], wants[best] = rests[best] - sum, wants[best] + 1
        end
        return true
    end
    for i = 1, queue_count do
        wants[i] = tonumber(ARGV[9 + 2 * i])
    end
    repeat
        for i = 1, queue_count do
            missing = missing - read(i, math.min(wants[i], missing))
        end
    until missing <= 0 or late_left <= 0 or bytes_left <= 0 or unnoted or not redraw()
end

local is_any_read = is_again -- an empty answer has to be kept
for i = 1, queue_count do
    is_any_read = is_any_read or queues[i]
end
if not is_any_read then
    return now_text .. (rare and rare.head(' 0') or ' 0 0')
end

-- From here on it is written.
local until_ms = now_text + ARGV[5]
local score = string.format('%d', math.ceil(until_ms / 1000))
local run_head, run_tail = '1 ' .. now_text .. ' ', string.format(' %d ', until_ms) .. ARGV[8]
local start_count, digits = tonumber(ARGV[6]), ARGV[7]
-- All charged ones that are leased, and probes, are started: their starts are kept apart.
local starts_left = start_count - (rare and rare.taken or 0)
local UNITS = {[0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}
local tens, unit = sub(fence, 1, -2), string.byte(fence, -1) - 48
local first_token = fence .. digits
local early, part, since_all, reply = bytes_left <= 0 or unnoted, nil, nil, nil
local held_locks = nil
for i = 1, queue_count do
    local queue, prefix = queues[i], KEYS[i]
    local count = queue and queue.count or 0
    if count > 0 then
        local ids, names, sinces, odd = queue.ids, queue.names, queue.sinces, queue.odd
        local marks = rare and rare.taken > 0 and {}
        -- A zset of up to 128 short members is one block, and each access walks through it; a long
        -- member makes a tree of it for as long as it exists. So many leases begin with one, which
        -- then goes: with 64 tasks active (of many queues, each has less) that saves a quarter.
        local long = count >= 16 and string.rep('\0', 65)
        local scores, place, token = {score, long}, long and 3 or 1, nil
        for k = 1, count do
            local is_odd, since, head = odd and odd[k], sinces[k], run_head
            if is_odd then
                since = is_odd.since
            end
            local terms = is_odd and is_odd.opts and string.match(is_odd.opts, ' u(%d:%d+)')
            if terms and not is_odd.late then
                held_locks = held_locks or {}
                held_locks[#held_locks + 1] = {prefix = prefix, name = names[k], id = ids[k + 4],
                    terms = terms}
            end
            local is_put_by = is_odd and (is_odd.level or is_odd.is_put_by)
            -- bug CHARGE_NOT_MARKED: local is_put_by = nil; if is_odd then is_odd.late = true end
            if starts_left <= 0 and not is_put_by or is_odd and is_odd.late then
                head = '0 0 '
            elseif not is_put_by then
                starts_left = starts_left - 1
            end
            if marks then
                marks[k] = head == run_head
            end
            token = tens .. UNITS[unit] .. digits
            unit = unit + 1
            if unit == 10 then
                unit, tens = 0, string.format('%d', tens + 1)
            end
            local new_count = call('HSET', names[k], 'state', 'active', 'pending_since', token,
                'quern_run', head .. since .. run_tail)
            if new_count == 0 or is_odd and is_odd.may_have_run then
                call('HDEL', names[k], 'quern_cancel', 'quern_progress')
            end
            scores[place], scores[place + 1] = score, ids[k + 4]
            place = place + 2
        end
        call('LPUSH', prefix .. 'active', unpack(ids, 5))
        call('ZADD', prefix .. 'lease', unpack(scores))
        if long then
            call('ZREM', prefix .. 'lease', long)
        end
        call('HSET', prefix .. 'quern:meta', 'fence', sub(token, 1, -4))
        ids[4] = count
        if marks then
            rare.mark(i, queue, marks, token)
        end
        if reply then
            for k = 3, count + 4 do
                part[#part + 1] = ids[k]
            end
            for k = 4, queue.held_count do
                reply[#reply + 1] = queue.held[k]
            end
            since_all = since_all .. table.concat(sinces)
        else
            part, reply, since_all = ids, queue.held, table.concat(sinces)
        end
    end
    if queue and queue.cut > 0 then
        if queue.skip == 0 and not queue.passed then
            call('LTRIM', prefix .. 'pending', '0', queue.cut == 1 and '-2' or -queue.cut - 1)
        else
            rare.cut(prefix, queue)
        end
        early = early or queue.is_read
    end
    if lanes and queue then
        lanes.close(i, queue)
    end
    if limits then
        limits.take(i, count)
    end
    if rare and queue then
        rare.close(i, queue)
        early = early or queue.is_read
    end
end
-- The locks of unique tasks that were leased hold for two leases at least, or end.
if held_locks then
    for _, run in ipairs(held_locks) do
        local ends, span = string.match(run.terms, '^(%d):(%d+)')
        local lock, holder = try('HGET', run.name, 'unique_key'), nil
        if type(lock) == 'string' and sub(lock, 1, #run.prefix + 7) == run.prefix .. 'unique:' then
            holder = try('GET', lock)
        end
        if ends == '1' and holder == run.id then
            call('DEL', lock)
            -- bug STARTED_KEEPS_LOCK: call('EXISTS', lock)
        elseif ends ~= '1' and ends ~= '4' and (holder == run.id or holder == false) then
            local ms = math.max(math.min(tonumber(span), 1e15), 2 * ARGV[5])
            local left = call('PTTL', lock)
            if left ~= -1 and left < ms then
                call('SET', lock, run.id, 'PX', string.format('%.0f', ms))
                -- bug LOCK_NOT_RENEWED: call('EXISTS', lock)
            end
        end
    end
end
if unnoted then
    call('HSET', KEYS[unnoted] .. 'quern:meta', 'charged', '1')
end
local head = early and ' 1' or ' 0'
head = now_text .. (rare and rare.head(head) or head .. ' 0')
if not reply then
    if is_again then
        try('ZREM', KEYS[1] .. 'lease', '') -- where nothing was read, no write came before
        session_keep(session_key, ARGV[2], '')
    end
    return head
end
part[1], part[2] = first_token, start_count - starts_left -- all that have started
reply[1], reply[2], reply[3] = head, cmsgpack.pack(part), since_all
session_keep(session_key, ARGV[2], (kept or '') .. reply[2])
return reply
