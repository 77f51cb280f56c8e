-- outcome.lua - applies the outcomes of runs of one queue, and notes which runs have started.
--
-- KEYS: prefix of the queue. ARGV: session, sequence, how many plain outcomes, how many starts, the
-- worker's host behind "h:" ("H:": it is leaving); id and token of each plain outcome: done,
-- nothing is kept, no lock; id and token of each start; then for each other outcome a letter, id,
-- token and
--   u: done; lock
--   e: dropped; lock
--   c: completed; lock, retention in ms, 1 if there is a result, the result
--   r: to retry; delay in ms, cause, 1 if it counts as failed, 2 if it was put aside or had not
--      started, its failures with this one, error
--   a: archived; error
--   o: archived before it had started; error
--   m: the same; the whole message, in place of an unreadable one
--   g: given back; cause
--   k: what the next one, of the same run (r, a, g), changes in its task: 1 if there is a payload,
--      the payload, retry_max ('': as before), the queue where it goes ('': it stays). Behind a
--      queue: its prefix, the key of all queues, the task's lock, what that is called there ('': it
--      has none), 1 if the task holds it as long as it lives. It has no place in the reply
--   n: it ended, its task was done before it began: only the brake is concerned
--   x: crashed; cause, 1 if it had started, error, in words, how long it lived in ms, 1 if no
--      attempts are left
-- error: what the task keeps of it, behind "e:"; "": nothing new.
-- Reply: for each outcome, the plain ones first, 0 applied, 1 stale, 2 salvaged, 3 archived, 4
-- applied, but it stays in its queue. Starts alone are not kept for a replay: noting them twice
-- changes nothing.
--
-- A run is alive if its task is active and carries the token. The fields of its message that change
-- are replaced in the stored one.
--
-- Mostly all are plain, and alive: that path is short, and functions that it does not need are not
-- even defined. Whether such a task is active is seen from the list `active`, which is read anyway.
local Q = KEYS[1]
-- include: lib_session.lua
local plain_count, start_count = tonumber(ARGV[3]), tonumber(ARGV[4])
local starts_at = 6 + 2 * plain_count
local others_at = starts_at + 2 * start_count
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':o'
local wants_answer = plain_count > 0 or ARGV[others_at]
local answer = wants_answer and session_find(session_key, ARGV[2])
if answer then
    return answer
end
-- include: lib_done.lua
-- include: lib_active.lua

-- The brake on the worker's host (lib_deaths.lua): a run that ended otherwise than by a death is
-- noted there, once a second while there is no streak.
local brake_field, is_leaving = ARGV[5], false
-- bug BRAKE_EVERYWHERE: local brake_field, is_leaving = 'h:', false
if string.byte(brake_field) == 72 then
    brake_field = 'h' .. string.sub(brake_field, 2)
    is_leaving = true
    -- bug LEAVING_WORKER_RELEASES: is_leaving = false
end
local meta = redis.call('HMGET', Q .. 'quern:meta', brake_field, 'limits', 'sema')
local brake_old, limited, semaphores = meta[1] or '', meta[2], meta[3]
local brake = nil

-- By the place of the outcome: '1', '2', '3'; nil: it was applied.
local applied, applied_count = {}, plain_count
local ended, places, unstarted, write_limits = {}, {}, {}, nil

-- Those with a valid token leave; returns how many.
local function plan_plain()
    local pcall, n = redis.pcall, 0
    for i = 1, plain_count do
        local id = ARGV[2 * i + 4]
        local name = T .. id
        if ended[id] or pcall('HGET', name, 'pending_since') ~= ARGV[2 * i + 5] then
            -- bug TOKEN_UNCHECKED: if ended[id] then
            applied[i] = '1'
        else
            n = n + 1
            leaving[n], keys_gone[n], places[n], ended[id] = id, name, i, true
        end
    end
    return n
end

-- Plain ones in the set `unsure` that are not active do not leave; returns their places.
local function take_back(unsure)
    local lost = {}
    for n = #leaving, 1, -1 do
        local id = leaving[n]
        if unsure[id] and redis.pcall('HGET', T .. id, 'state') ~= 'active' then
            table.remove(leaving, n)
            table.remove(keys_gone, n)
            lost[#lost + 1] = places[n]
            unsure[id], ended[id] = nil, nil
        end
    end
    return lost
end

local plain_only = start_count == 0 and not ARGV[others_at]
local write, active, lost = done_write, nil, {}
if plan_plain() > 0 then
    active = plain_only and active_find(leaving)
    local unsure = active and active.gone or ended
    lost = next(unsure) and take_back(unsure) or lost
    if leaving[1] then
        count(#leaving, 0)
    end
end
if lost[1] or not plain_only then
    local now_ms = now_s * 1000 + math.floor(tonumber(time[2]) / 1000)
-- include: lib_lock.lua
-- include: lib_renew.lua
-- include: lib_deaths.lua
-- include: lib_varint.lua
-- include: lib_fields.lua
-- include: lib_end.lua
-- include: lib_change.lua
-- include: lib_outcomes.lua
    write = change_write
    brake = brake_read(brake_old)
    if any_ended and not is_leaving then
        brake_release(brake)
    end
    for _, i in ipairs(lost) do
        applied[i] = apply_next('', ARGV[2 * i + 4], ARGV[2 * i + 5], 0)
    end
    local at = others_at
    while ARGV[at] do
        local kind, id, token = ARGV[at], ARGV[at + 1], ARGV[at + 2]
        if kind == 'k' then
            at = change.ask(id, at + 3)
        else
            applied_count = applied_count + 1
            applied[applied_count] = apply_next(kind, id, token, at + 3)
            change.asked[id] = nil
            at = at + 3 + words[kind]
        end
    end
    for i = starts_at, others_at - 1, 2 do
        note_start(ARGV[i], ARGV[i + 1])
    end
    local function return_starts() -- of its own, as a function has at most 200 locals
-- include: limits/lib_tokens.lua
-- include: limits/lib_limits.lua
-- include: limits/lib_lanes.lua
-- include: limits/lib_holders.lua
-- include: limits/lib_gates.lua
        local limits, has_gates = limits_read(Q, now_ms, {})
        local gates = gates_open(Q, now_ms, has_gates and gates_of_all(now_ms) or nil)
        local rates = limits and limits.rates or {}
        for _, run in ipairs(unstarted) do
            local taken_at_ms = math.min(math.floor(run.fence / 1000), now_ms)
            for _, starts in ipairs(rates) do
                starts_give_back(starts, now_ms, taken_at_ms)
            end
            if limited ~= '1' then
                local f = fields_of(run.id, 'msg', 'quern_opts')
                gates_return(gates, lane_type_of(f[1] or ''), lane_key_of(f[2]), taken_at_ms)
            end
        end
        return function()
            for _, starts in ipairs(rates) do
                starts_write(starts, now_ms)
            end
            gates_write(gates)
        end
    end
    write_limits = unstarted[1] and limited and return_starts()
    if brake.changed then
        meta_sets = {brake_field, brake_text(brake)}
        notes = {brake_note(Q, string.sub(brake_field, 3), brake)}
    end
elseif any_ended and not is_leaving then
    -- Until the year 2286 a moment has 13 digits.
    local has_streak = string.sub(brake_old, 14, 16) ~= ' 0 '
    if has_streak or string.sub(brake_old, 1, 10) ~= time[1] then
        local now = time[1] .. string.sub(string.format('%06d', time[2]), 1, 3)
        meta_sets = {brake_field, now .. ' 0 0 0 ' .. now .. ' 0 '}
        notes = has_streak and {{'HDEL', Q .. 'quern:braked', string.sub(brake_field, 3)}}
    end
end
active = active or active_find(leaving)
write()
active_leave(active)
if write_limits then
    write_limits()
end
if limited and limited ~= '1' and leaving[1] then
-- include: limits/lib_holders.lua
    hold_free(Q, leaving)
    redis.call('DEL', Q .. 'quern:lanes:idle')
end
if semaphores and leaving[1] then
-- include: limits/lib_tokens.lua
    tokens_return(tokens_of(semaphores), T, leaving)
end

if wants_answer then
    if next(applied) then
        for i = 1, applied_count do
            applied[i] = applied[i] or '0'
        end
        answer = table.concat(applied)
    else
        answer = string.rep('0', applied_count)
    end
    session_keep(session_key, ARGV[2], answer)
end
return answer or ''
