-- lib_outcomes.lua - outcomes that are not plain, for outcome.lua: they leave something behind, or
-- free a lock, or come too late. Expects lib_done.lua, lib_lock.lua, lib_deaths.lua,
-- lib_fields.lua, lib_runs.lua, lib_end.lua, lib_change.lua, `brake` (of the worker's host) and the
-- set `ended`.
-- `unstarted` gets the ids and fences of runs that were leased and returned before they had
-- started: they count for no limit of starts.

local function leave(id)
    leaving[#leaving + 1] = id
    ended[id] = true
end

-- Of a task that is alive under this token: past, run and place; else nil. A live one leaves.
-- entry: of the run, "": it is not noted.
local function alive(id, token, entry)
    local fields = fields_of(id, 'state', 'pending_since', 'quern_past', 'quern_run',
        'quern_place', 'quern_opts', 'quern_runs')
    if fields[1] ~= 'active' or fields[2] ~= token then
        -- bug TOKEN_UNCHECKED: if fields[1] ~= 'active' then
        return nil
    end
    leave(id)
    local run = run_read(fields[4])
    run.place, run.opts = fields[5], fields[6]
    local past = past_read(fields[3])
    past.runs = entry ~= '' and runs_text(entry, fields[7]) or nil
    return past, run
end

-- A fence is the token without its random digits; it grows over all runs.
local function fence_of(token)
    return tonumber(string.sub(token, 1, -4))
end

-- The lease of a successful run was lost, but the task has not been started since: it still carries
-- the token and waits because of the loss. Where it is in pending must be found near the head.
local function may_be_salvaged(id, state, past)
    local cause = past_read(past).cause
    if cause ~= @QUERN_CAUSE_LEASE_EXPIRED@ and cause ~= @QUERN_CAUSE_WORKER_DIED@ then
        return false
    end
    if state == 'retry' then
        from_retry[#from_retry + 1] = id
        whole[#whole + 1] = id
        return true
    end
    if state == 'scheduled' and redis.call('ZSCORE', Q .. 'scheduled', id) then
        from_scheduled[#from_scheduled + 1] = id -- it waits for a limit
        return true
    end
    if state == 'pending' and
        redis.call('LPOS', Q .. 'pending', id, 'RANK', -1, 'MAXLEN', 10000) then
        from_pending[#from_pending + 1] = id
        return true
    end
    return false
end

local function finish(id, token, lock, keep, salvages)
    local fields = fields_of(id, 'state', 'pending_since')
    local result = '0'
    if fields[2] ~= token then
        -- bug TOKEN_UNCHECKED: if false then
        return '1'
    end
    if fields[1] == 'active' then
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
        keep(past_read(fields_of(id, 'quern_past')[1]), result == '2')
    else
        keys_gone[#keys_gone + 1] = T .. id
    end
    return result
end

-- By letter, those that a salvage may apply; with id, token, and where their arguments begin.
local finishes = {}
finishes[''] = function(id, token)
    return finish(id, token, nil, nil, true)
end
function finishes.u(id, token, first)
    return finish(id, token, ARGV[first], nil, true)
end
function finishes.e(id, token, first)
    return finish(id, token, ARGV[first], nil, false)
end
function finishes.c(id, token, first)
    return finish(id, token, ARGV[first], function(past, is_salvaged)
        local until_ms = now_ms + tonumber(ARGV[first + 1])
        past.ended_ms, past.since = now_ms, '0'
        local entry = ARGV[first + 4]
        if entry ~= '' or is_salvaged then
            local old = fields_of(id, 'quern_runs')[1]
            -- Where it is salvaged, its loss is noted as the newest one.
            past.runs = runs_text(entry, is_salvaged and runs_older(old) or old)
        end
        if ARGV[first + 2] == '1' then
            plan_set(id, 'result', ARGV[first + 3])
        end
        plan_move(id, 'completed', math.ceil(until_ms / 1000), past,
            message_of(id) .. '\@QN_ASYNQ_TAG_COMPLETED_AT@' .. varint(now_s))
        plan_set(id, 'quern_past', past_text(past, until_ms))
    end, true)
end

local function return_start(id, token)
    unstarted[#unstarted + 1] = {id = id, fence = fence_of(token)}
    -- bug START_NOT_RETURNED: local _ = id
end
local function error_of(word)
    return word ~= '' and string.sub(word, 3) or nil
end

-- The others, for tasks that are alive.
local ends = {}
function ends.r(id, token, first, past, run)
    local counts = ARGV[first + 2] == '1'
    local text, changed = error_of(ARGV[first + 4]), nil
    past.cause, past.ended_ms, past.since = tonumber(ARGV[first + 1]), 0, '0'
    if counts then
        past.failed_ms = now_ms
        changed = failure(tonumber(ARGV[first + 3]), text)
    elseif text then
        changed = failure(nil, text)
        changed[@QN_ASYNQ_TAG_FAILED_AT@] = nil
    end
    local message, unmoved = change.plan(id, changed and with_fields(message_of(id), changed),
        now_ms + tonumber(ARGV[first]))
    plan_retry(id, now_ms + tonumber(ARGV[first]), past, message)
    if ARGV[first + 2] ~= '2' then
        plan_begun(id, run.opts)
        count(counts and 1 or 0, counts and 1 or 0)
    else
        return_start(id, token)
    end
    return unmoved and '4' or '0'
end
local function archive(id, past, message)
    past.failed_ms, past.ended_ms, past.since = now_ms, now_ms, '0'
    plan_lock(id, 'archived', 0)
    plan_move(id, 'archived', now_s, past, message)
    count(1, 1)
    return '0'
end
function ends.a(id, _, first, past)
    local changed = failure(nil, error_of(ARGV[first]))
    return archive(id, past, change.plan(id, with_fields(message_of(id), changed)))
    -- bug CHANGE_FORGOTTEN: return archive(id, past, with_fields(message_of(id), changed))
end
function ends.o(id, token, first, past)
    return_start(id, token)
    local answer = ends.a(id, token, first, past)
    any_ended = false
    return answer
end
function ends.m(id, token, first, past)
    return_start(id, token)
    local answer = archive(id, past, with_fields(ARGV[first], failure()))
    any_ended = false
    return answer
end
function ends.g(id, token, first, past, run)
    past.cause, past.ended_ms, past.since = tonumber(ARGV[first]), 0, '0'
    if ARGV[first + 1] == '1' then
        plan_begun(id, run.opts)
    else
        return_start(id, token)
    end
    local message, unmoved = change.plan(id, nil, now_ms)
    if change.is_moving(id) then
        plan_retry(id, now_ms, past, message)
        return '0'
    end
    plan_back(id, run.place, fence_of(token), past, run.since ~= '0' and run.since or token)
    if message then
        plan_set(id, 'msg', message)
    end
    return unmoved and '4' or '0'
end
function ends.x(id, token, first, past, run)
    local started = ARGV[first + 1] == '1'
    -- bug UNSTARTED_CHARGED: local started = true
    local charged = started and not is_leaving
    local is_probe = charged and brake.token == token
    if charged then
        brake_death(brake, is_probe)
    end
    local archived = plan_loss(id, {past = past, run = run, place = run.place, token = token,
        fence = fence_of(token), started = started, charged = charged,
        cause = tonumber(ARGV[first]), error = error_of(ARGV[first + 2]),
        last = ARGV[first + 3], started_ms = now_ms - number_of(ARGV[first + 4]),
        spent = ARGV[first + 5] == '1', lone = true, child = true, is_probe = is_probe,
        ok_at = brake.ok_at})
        -- bug OK_ELSEWHERE: ok_at = now_ms})
    return archived and '3' or '0'
end

-- Applies one that is not plain; returns the reply for it.
local function apply(kind, id, token, first)
    if kind == 'n' then
        count(0, 0)
        return '0'
    elseif ended[id] then
        return '1'
    end
    if finishes[kind] then
        return finishes[kind](id, token, first)
    end
    local past, run = alive(id, token, kind == 'm' and '' or ARGV[first + words_of(kind) - 1])
    if not past then
        return '1'
        -- bug FAILED_RUN_SALVAGED: return finish(id, token, nil, nil, true)
    end
    return ends[kind](id, token, first, past, run)
end

-- Outcomes are applied in the order of the request. A run that had started and ended otherwise than
-- by a death releases the brake, unless the worker is leaving.
local function apply_next(kind, id, token, first)
    any_ended = false
    local answer = apply(kind, id, token, first)
    if any_ended and not is_leaving then
        brake_release(brake)
    end
    return answer
end

local function note_start(id, token)
    local fields = fields_of(id, 'state', 'pending_since', 'quern_run')
    if not ended[id] and fields[1] == 'active' and fields[2] == token then
        local run = run_read(fields[3])
        run.started, run.started_ms = true, whole_number(now_ms)
        plan_set(id, 'quern_run', run_text(run))
    end
end
