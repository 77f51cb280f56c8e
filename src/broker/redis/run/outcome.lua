-- outcome.lua - applies the outcomes of runs of some queues, and notes which runs have started.
--
-- KEYS: prefixes of the queues; the session is kept at the first. ARGV: session, sequence, the
-- worker's host behind "h:" ("H:": it is leaving); then of each queue: how many plain outcomes, how
-- many starts; id and token of each plain outcome: done, nothing is kept, no lock; id and token of
-- each start; for each other outcome a letter, id, token and its data; and "".
--   u: done; lock
--   e: dropped; lock
--   c: completed; lock, retention in ms, 1 if there is a result, the result, entry
--   r: to retry; delay in ms, cause, 1 if it counts as failed, 2 if it was put aside or had not
--      started, its failures with this one, error, entry
--   a: archived; error, entry
--   o: archived before it had started; error, entry
--   m: the same; the whole message, in place of an unreadable one
--   g: given back; cause, 1 if it had started, entry
--   k: what the next one, of the same run (r, a, g), changes in its task: 1 if there is a payload,
--      the payload, retry_max ('': as before), the queue where it goes ('': it stays). Behind a
--      queue: its prefix, the key of all queues, the task's lock, what that is called there ('': it
--      has none), 1 if the task holds it as long as it lives. It has no place in the reply
--   n: it ended, its task was done before it began: only the brake is concerned
--   x: crashed; cause, 1 if it had started, error, in words, how long it lived in ms, 1 if no
--      attempts are left, entry
-- error: what the task keeps of it, behind "e:"; "": nothing new. entry: of the run, for the past
-- ones of its task (ends/lib_runs.lua); "": it is not noted.
-- Reply: for each outcome, by queue, the plain ones first, 0 applied, 1 stale, 2 salvaged, 3
-- archived, 4 applied, but it stays in its queue, ? not applied, since the server refused that
-- queue; then the reply is a pair with the error. Where a key of a queue has the wrong type its
-- outcomes are stale: that will not get better by asking again. Starts alone are not kept for a
-- replay: noting them twice changes nothing.
--
-- A run is alive if its task is active and carries the token. The fields of its message that change
-- are replaced in the stored one.
--
-- Each queue is planned and written before the next one, and an error in one of them concerns no
-- other. Mostly all outcomes are plain, and alive, in a queue without limits: that path is short
-- (apply_plain), and functions that it does not need are not even defined. Whether such a task is
-- active is seen from the list `active`, which is read anyway.
local ARGV = ARGV
-- include: lib_session.lua
local session_key = KEYS[1] .. 'quern:s:' .. ARGV[1] .. ':o'
local kept = session_find(session_key, ARGV[2])
if kept and not string.find(kept, '?', 1, true) then
-- bug REFUSED_QUEUE_LEFT: if kept then
    return kept
end
-- include: ends/lib_count.lua
-- include: lib_active.lua

-- The brake on the worker's host (lib_deaths.lua): a run that ended otherwise than by a death is
-- noted there, once a second while there is no streak.
local brake_field, is_leaving = ARGV[3], false
-- bug BRAKE_EVERYWHERE: local brake_field, is_leaving = 'h:', false
if string.byte(brake_field) == 72 then
    brake_field = 'h' .. string.sub(brake_field, 2)
    is_leaving = true
    -- bug LEAVING_WORKER_RELEASES: is_leaving = false
end

-- What a brake becomes; nil: it stays. Then, whether it had a streak.
local function brake_release_text(old)
    -- Until the year 2286 a moment has 13 digits.
    local has_streak = string.sub(old, 14, 16) ~= ' 0 '
    if has_streak or string.sub(old, 1, 10) ~= time[1] then
        local now = time[1] .. string.sub(string.format('%06d', time[2]), 1, 3)
        return now .. ' 0 0 0 ' .. now .. ' 0 ', has_streak
    end
end

-- --- The short path ---

-- Tables that would grow again for each queue are made once. In keys_done are hashes of tasks that
-- are done: one DEL for all queues.
local keys_done, ids, names, seen = {}, {}, {}, {}

local function delete_done()
    for i = 1, #keys_done, 1000 do
        redis.call('DEL', unpack(keys_done, i, math.min(i + 999, #keys_done)))
    end
    keys_done = {}
end

-- Applies `count` plain outcomes from `first` on; nil: it takes more than that, and nothing was
-- written.
local function apply_plain(Q, first, count)
    local call, pcall = redis.call, redis.pcall
    local meta = call('HMGET', Q .. 'quern:meta', brake_field, 'limits', 'sema')
    if meta[2] or meta[3] then
        return nil
    end
    local T, key = Q .. 't:', Q .. 'active'
    for i = 1, count do
        local id = ARGV[first]
        local name = T .. id
        if seen[name] or pcall('HGET', name, 'pending_since') ~= ARGV[first + 1] then
            -- bug TOKEN_UNCHECKED: if seen[name] then
            return nil
        end
        ids[i], names[i], seen[name], first = id, name, true, first + 2
    end
    local active = active_find(key, ids, count)
    for id in pairs(active.gone) do
        if pcall('HGET', T .. id, 'state') ~= 'active' then
            return nil
        end
    end
    call('ZREM', Q .. 'lease', unpack(ids, 1, count))
    count_write(Q, count, 0)
    local release, has_streak = nil, nil
    if not is_leaving then
        release, has_streak = brake_release_text(meta[1] or '')
    end
    if release then
        call('HSET', Q .. 'quern:meta', brake_field, release)
        if has_streak then
            pcall('HDEL', Q .. 'quern:braked', string.sub(brake_field, 3))
        end
    end
    active_leave(key, active)
    local total = #keys_done
    for i = 1, count do
        keys_done[total + i] = names[i]
    end
    return string.rep('0', count)
end

-- --- The whole path ---

local words = nil

-- How many words follow the letter, id and token of an outcome.
local function words_of(kind)
    words = words or {u = 1, e = 1, c = 5, r = 6, a = 2, o = 2, m = 1, g = 3, x = 7, n = 0}
    return words[kind]
end

local function answer_of(applied, count)
    for i = 1, next(applied) and count or 0 do
        applied[i] = applied[i] or '0'
    end
    return next(applied) and table.concat(applied) or string.rep('0', count)
end

-- Applies everything of a queue: plain outcomes from `first` on, starts from `starts_at` on, others
-- from `others_at` to before `after`.
local function apply_all(Q, first, starts_at, others_at, after)
-- include: lib_done.lua
    local plain_count, start_count = (starts_at - first) / 2, (others_at - starts_at) / 2
    local meta = redis.call('HMGET', Q .. 'quern:meta', brake_field, 'limits', 'sema')
    local brake, brake_old, limited, semaphores = nil, meta[1] or '', meta[2], meta[3]
-- include: ends/lib_plain.lua
    local plain_only = start_count == 0 and others_at == after
    local write, active, lost = done_write, nil, {}
    if plan_plain() > 0 then
        active = plain_only and active_find(Q .. 'active', leaving, #leaving)
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
-- include: ends/lib_runs.lua
-- include: lib_end.lua
-- include: change/lib_altered.lua
-- include: change/lib_change.lua
-- include: lib_outcomes.lua
        write = change_write
        brake = brake_read(brake_old)
        if any_ended and not is_leaving then
            brake_release(brake)
        end
-- include: ends/lib_others.lua
        local function return_starts() -- of its own, as a function has at most 200 locals
-- include: limits/lib_tokens.lua
-- include: limits/lib_limits.lua
-- include: limits/lib_lanes.lua
-- include: limits/lib_holders.lua
-- include: limits/lib_gates.lua
-- include: ends/lib_unstarted.lua
        end
        write_limits = unstarted[1] and limited and return_starts()
        if brake.changed then
            meta_sets = {brake_field, brake_text(brake)}
            notes = {brake_note(Q, string.sub(brake_field, 3), brake)}
        end
    elseif any_ended and not is_leaving then
        local release, has_streak = brake_release_text(brake_old)
        meta_sets = release and {brake_field, release}
        notes = has_streak and {{'HDEL', Q .. 'quern:braked', string.sub(brake_field, 3)}}
    end
    active = active or active_find(Q .. 'active', leaving, #leaving)
    write()
    active_leave(Q .. 'active', active)
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
    return answer_of(applied, applied_count)
end

-- --- All queues ---

-- How many outcomes are there from `at` on, and where the "" behind them is.
local function skip_others(at)
    local count = 0
    while ARGV[at] ~= '' do
        if ARGV[at] == 'k' then
            at = at + (ARGV[at + 6] == '' and 7 or 12)
        else
            count, at = count + 1, at + 3 + words_of(ARGV[at])
        end
    end
    return count, at
end

local answers, total, at, failure, any_applied = {}, 0, 4, nil, false
for i = 1, #KEYS do
    local plain_count, first = tonumber(ARGV[at]), at + 2
    local starts_at = first + 2 * plain_count
    local others_at = starts_at + 2 * tonumber(ARGV[at + 1])
    local count, after = plain_count, others_at
    if ARGV[after] ~= '' then
        count, after = skip_others(others_at)
        count = count + plain_count
    end
    local answer = kept and string.sub(kept, total + 1, total + count)
    -- bug APPLIED_QUEUE_AGAIN: local answer = nil
    if not answer or answer == '' or string.find(answer, '?', 1, true) then
        local ok = true
        answer = nil
        if plain_count > 0 and starts_at == after then
            ok, answer = pcall(apply_plain, KEYS[i], first, plain_count)
            -- bug QUEUE_ERROR_SPREADS: answer = apply_plain(KEYS[i], first, plain_count)
        end
        if ok and not answer then
            delete_done()
            ok, answer = pcall(apply_all, KEYS[i], first, starts_at, others_at, after)
        end
        any_applied = any_applied or ok
        if not ok then
            local problem = type(answer) == 'table' and answer or redis.error_reply(answer)
            local is_damage = string.find(problem.err, 'WRONGTYPE', 1, true)
            failure = failure or not is_damage and problem
            answer = string.rep(is_damage and '1' or '?', count)
        end
    end
    answers[i], total, at = answer, total + count, after + 1
end
if failure and not any_applied then
    return kept and {kept, failure} or failure
end
delete_done()
local answer = table.concat(answers)
if total > 0 and any_applied then
    session_keep(session_key, ARGV[2], answer)
end
return failure and {answer, failure} or answer
