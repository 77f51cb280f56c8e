-- outcome.lua - applies how runs of one queue ended, and notes which runs have started.
--
-- KEYS: prefix of the queue. ARGV: session, sequence, how many starts, for each of them id and
-- token; then for each outcome a letter, id, token and
--   d: done, nothing is kept
--   u: the same; lock
--   e: dropped; lock
--   c: completed; lock, retention in ms, 1 if there is a result, the result
--   r: to retry; delay in ms, cause, 1 if it counts as failed, message ("": as it is)
--   a: archived; message
--   g: given back; cause
--   x: crashed; cause, 1 if it had started, message ("": as it is), in words
-- Reply: for each outcome 0 applied, 1 stale, 2 salvaged, 3 archived.
--
-- A run is alive if its task is active, leased, and carries the token. The messages come without
-- the moment of the failure: that is the server's, and is put at their end.
local Q = KEYS[1]
redis.call('ZREM', Q .. 'lease', '')
-- include: lib_session.lua
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':o'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
-- include: lib_count.lua
-- include: lib_lock.lua
-- include: lib_end.lua
-- include: lib_active.lua

local words = {d = 0, u = 1, e = 1, c = 4, r = 4, a = 1, g = 1, x = 4}
local start_count = tonumber(ARGV[3])
local kinds, ids, places = {}, {}, {}
local at = 4 + 2 * start_count
while at <= #ARGV do
    local i = #ids + 1
    kinds[i], ids[i], places[i] = ARGV[at], ARGV[at + 1], at + 2
    at = at + 3 + words[kinds[i]]
end
local leases = #ids > 0 and redis.call('ZMSCORE', Q .. 'lease', unpack(ids))
local applied, ended = {}, {}
streak_read()

local function leave(id)
    leaving[#leaving + 1] = id
    ended[id] = true
end

-- Of a task that is alive under this token: past, run and place; else nil.
local function alive(i, token)
    local fields = fields_of(ids[i], 'state', 'pending_since', 'quern_past', 'quern_run',
        'quern_place')
    if not leases[i] or fields[1] ~= 'active' or fields[2] ~= token then
        -- bug TOKEN_UNCHECKED: if not leases[i] or fields[1] ~= 'active' then
        return nil
    end
    leave(ids[i])
    return past_read(fields[3]), run_read(fields[4]), fields[5]
end

-- A fence is the token without its random digits; it grows over all runs.
local function fence_of(token)
    return tonumber(string.sub(token, 1, -4))
end

-- The lease of a successful run was lost, but nobody has started the task since: it still carries
-- the token and waits because of the loss. Where it is in pending must be found near the head.
local function may_be_salvaged(id, state, past)
    local cause = past_read(past).cause
    if cause ~= 4 and cause ~= 6 then
        return false
    end
    if state == 'retry' then
        from_retry[#from_retry + 1] = id
        whole[#whole + 1] = id
        return true
    end
    if state == 'pending' and
        redis.call('LPOS', Q .. 'pending', id, 'RANK', -1, 'MAXLEN', 10000) then
        from_pending[#from_pending + 1] = id
        return true
    end
    return false
end

local function finish(i, lock, keep, salvages)
    local id = ids[i]
    local name = T .. id
    local fields = redis.pcall('HMGET', name, 'state', 'pending_since')
    local result = '0'
    if fields[2] ~= ARGV[places[i]] then
        -- bug TOKEN_UNCHECKED: if false then
        return '1'
    end
    if leases[i] and fields[1] == 'active' then
        leaving[#leaving + 1] = id
    elseif salvages and may_be_salvaged(id, fields[1], fields_of(id, 'quern_past')[1]) then
        result = '2'
    else
        return '1'
    end
    ended[id] = true
    count(1, 0)
    if lock then
        plan_unlock(id, lock)
    end
    -- bug UNIQUE_LOCK_WRONG: local kept = lock
    if keep then
        keep(id, past_read(fields_of(id, 'quern_past')[1]))
    else
        keys_gone[#keys_gone + 1] = name
    end
    return result
end

local apply = {}
function apply.d(i)
    return finish(i, nil, nil, true)
end
function apply.u(i, first)
    return finish(i, ARGV[first], nil, true)
end
function apply.e(i, first)
    return finish(i, ARGV[first], nil, false)
end
function apply.c(i, first)
    return finish(i, ARGV[first], function(id, past)
        local message = fields_of(id, 'msg')[1] or ''
        local until_ms = now_ms + tonumber(ARGV[first + 1])
        past.ended_ms, past.since = now_ms, '0'
        if ARGV[first + 2] == '1' then
            plan_set(id, 'result', ARGV[first + 3])
        end
        plan_move(id, 'completed', math.ceil(until_ms / 1000), false, past,
            with_completed_at(message))
        plan_set(id, 'quern_past', past_text(past) .. ' ' .. whole_number(until_ms))
    end, true)
end
function apply.r(i, first, token)
    local past = alive(i, token)
    if not past then
        return '1'
        -- bug FAILED_RUN_SALVAGED: return finish(i, nil, nil, true)
    end
    local counts = ARGV[first + 2] == '1'
    local message = ARGV[first + 3]
    past.cause, past.ended_ms, past.since = tonumber(ARGV[first + 1]), 0, '0'
    if counts then
        past.failed_ms = now_ms
        message = with_failed_at(message)
    end
    plan_retry(ids[i], now_ms + tonumber(ARGV[first]), false, past, message ~= '' and message)
    count(counts and 1 or 0, counts and 1 or 0)
    return '0'
end
function apply.a(i, first, token)
    local past = alive(i, token)
    if not past then
        return '1'
    end
    past.failed_ms, past.ended_ms, past.since = now_ms, now_ms, '0'
    plan_move(ids[i], 'archived', now_s, false, past, with_failed_at(ARGV[first]))
    count(1, 1)
    return '0'
end
function apply.g(i, first, token)
    local past, run, place = alive(i, token)
    if not past then
        return '1'
    end
    past.cause, past.ended_ms, past.since = tonumber(ARGV[first]), 0, '0'
    plan_back(ids[i], place, fence_of(token), past, run.since ~= '0' and run.since or token)
    return '0'
end
function apply.x(i, first, token)
    local past, run, place = alive(i, token)
    if not past then
        return '1'
    end
    local started = ARGV[first + 1] == '1'
    -- bug UNSTARTED_CHARGED: local started = true
    local message = ARGV[first + 2]
    local poison = plan_crash(ids[i], {past = past, run = run, place = place, token = token,
        fence = fence_of(token), charged = started and is_chargeable(),
        cause = tonumber(ARGV[first]), message = message ~= '' and message or nil,
        last = ARGV[first + 3]})
    if started then
        streak_goes_on(ids[i])
    end
    return poison and '3' or '0'
end

for i = 1, #ids do
    applied[i] = ended[ids[i]] and '1' or apply[kinds[i]](i, places[i] + 1, ARGV[places[i]])
end
for i = 4, 3 + 2 * start_count, 2 do
    local fields = fields_of(ARGV[i], 'state', 'pending_since', 'quern_run')
    if not ended[ARGV[i]] and fields[1] == 'active' and fields[2] == ARGV[i + 1] then
        local run = run_read(fields[3])
        run.started, run.started_ms = true, whole_number(now_ms)
        plan_set(ARGV[i], 'quern_run', run_text(run))
    end
end
local gone = {}
for _, id in ipairs(leaving) do
    gone[id] = true
end
local active = active_find(leaving, gone, #leaving)
end_write()
active_leave(active)
answer = table.concat(applied)
session_keep(session_key, ARGV[2], answer)
return answer
