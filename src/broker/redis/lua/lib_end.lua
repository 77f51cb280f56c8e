-- lib_end.lua - the end of runs, the same for reported outcomes (outcome.lua) and for leases that
-- were not extended (recover.lua). Expects Q, the prefix of the queue, lib_done.lua, lib_lock.lua,
-- lib_renew.lua, lib_deaths.lua and lib_fields.lua.
--
-- First everything is planned, and each key that will be written is read with the command of its
-- type; then end_write writes it all, and nothing can fail any more.
-- How far it may grow beyond that between two prunes, and how many are then removed at once.
local ARCHIVE_SLACK = 500

-- The plan. behind: the ids that go to the tail of pending.
local changes = {}
local removals = {}
local back, behind = {}, {}
local charged = {} -- by level: the index of charged tasks, as ZADD takes it
local moved = {retry = {}, archived = {}, completed = {}}
local due, whole = {}, {}
local from_pending, from_retry, from_scheduled = {}, {}, {}
local locks = {} -- what becomes of those of tasks that go on

-- --- Texts ---

local function whole_number(number)
    return string.format('%.0f', number)
end

-- quern_past; since is nanoseconds, which no Lua number can hold. kept_ms: see there.
local function past_read(text)
    local word = string.gmatch(text or '', '%d+')
    local function number()
        return number_of(word())
    end
    local past = {crashes = number(), crashed_ms = number(), failed_ms = number(),
        ended_ms = number(), cause = number(), since = word() or '0', kept_ms = number()}
    past.lone, past.life_ms, past.died_ms = number(), number(), number()
    past.level = math.min(tonumber(word() or past.crashes), @QN_ALONE_CHARGES@)
    return past
end
local function past_text(past, kept_ms)
    local text = string.format('%.0f %.0f %.0f %.0f %.0f %s', past.crashes, past.crashed_ms,
        past.failed_ms, past.ended_ms, past.cause, past.since)
    if past.crashes > 0 then
        text = text .. string.format(' %.0f %.0f %.0f %.0f', kept_ms or 0, past.lone, past.life_ms,
            past.died_ms)
        local is_usual = past.level == math.min(past.crashes, @QN_ALONE_CHARGES@)
        return is_usual and text or text .. string.format(' %d', past.level)
    end
    return kept_ms and text .. string.format(' %.0f', kept_ms) or text
end

-- A place in pending as a number, or nil.
local function place_read(text)
    return text and #text <= 16 and tonumber(string.match(text, '^%d+$') or '')
end

-- quern_run
local function run_read(text)
    local started, started_ms, since, until_ms, worker =
        string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (.*)$')
    return {started = started == '1', started_ms = started_ms or '0', since = since or '0',
        until_ms = tonumber(until_ms or 0), worker = worker or ''}
end
local function run_text(run)
    return string.format('%d %s %s %.0f %s', run.started and 1 or 0, run.started_ms, run.since,
        run.until_ms, run.worker)
end

-- Fields of a task; none when its key is of another type.
local function fields_of(id, ...)
    local fields = redis.pcall('HMGET', T .. id, ...)
    return fields.err and {} or fields
end

local function message_of(id)
    return fields_of(id, 'msg')[1] or ''
end

-- --- Planning ---

local function plan_unlock(id, lock)
    if owns_lock(id, lock) then
        keys_gone[#keys_gone + 1] = lock
        lock_holders[lock] = false
    end
end

local function plan_delete(id, lock)
    keys_gone[#keys_gone + 1] = T .. id
    plan_unlock(id, lock)
end

-- Of a task that goes on in this state, due in wait_ms.
local function plan_lock(id, state, wait_ms)
    local fields = fields_of(id, 'unique_key', 'quern_opts')
    local lock = fields[1]
    local fate = lock_fate(id, lock, fields[2], state, wait_ms)
    if fate then
        locks[#locks + 1] = {id = id, lock = lock, fate = fate}
        lock_holders[lock] = fate ~= 'free' and id
    end
end

local function plan_set(id, ...)
    changes[#changes + 1] = {T .. id, ...}
end

-- Sets fields, and clears those of the run.
local function plan_fields(id, ...)
    plan_set(id, ...)
    removals[#removals + 1] = {T .. id, 'quern_run', 'quern_progress', 'quern_cancel'}
end

-- To a state that is a zset, with the score that it has there. past.keeps_token: pending_since
-- stays; past.runs: the new quern_runs, nil: as it is.
local function plan_move(id, state, score, past, message)
    local list = moved[state]
    list[#list + 1] = whole_number(score)
    list[#list + 1] = id
    plan_fields(id, 'state', state, 'quern_past', past_text(past), past.runs and 'quern_runs',
        past.runs)
    if message then
        plan_set(id, 'msg', message)
    end
    removals[#removals + 1] = {T .. id, 'quern_place',
        not past.keeps_token and 'pending_since' or nil}
end

local function plan_retry(id, at_ms, past, message)
    plan_lock(id, 'retry', math.max(at_ms - now_ms, 0))
    plan_move(id, 'retry', math.ceil(at_ms / 1000), past, message)
    if at_ms % 1000 == 0 then
        whole[#whole + 1] = id
    else
        due[#due + 1] = whole_number(at_ms)
        due[#due + 1] = id
    end
end

-- In pending, a charged task is in an index, too: by its level, in the order of its place.
local function plan_charged(id, past, place)
    if past.crashes > 0 then
        local level = past.level
        charged[level] = charged[level] or {}
        local list = charged[level]
        list[#list + 1] = whole_number(place)
        list[#list + 1] = id
    end
end

-- Back to pending, before all later ones. `place` is for those that never had one; without
-- `since` pending_since stays as it is.
local function plan_back(id, kept_place, place, past, since)
    place = place_read(kept_place) or place
    plan_lock(id, 'pending', 0)
    back[#back + 1] = {id = id, place = place, at = #back}
    plan_charged(id, past, place)
    plan_fields(id, 'state', 'pending', 'quern_past', past_text(past), 'quern_place',
        whole_number(place), past.runs and 'quern_runs', past.runs)
    if since then
        plan_set(id, 'pending_since', since)
    end
end

-- Back to pending, behind all others; pending_since as above.
local function plan_behind(id, past, since)
    local place = now_s * 1000000 + tonumber(time[2])
    behind[#behind + 1] = id
    plan_lock(id, 'pending', 0)
    plan_charged(id, past, place)
    plan_fields(id, 'state', 'pending', 'quern_past', past_text(past), 'quern_place',
        whole_number(place), past.runs and 'quern_runs', past.runs)
    if since then
        plan_set(id, 'pending_since', since)
    end
end

-- A run of the task has started, so it may start again at any time: the eighth number of quern_opts
-- is the moment by which it must have.
local function plan_begun(id, opts)
    local head, tail = string.match(opts or '', '^(%d+ %d+ %d+ %d+ %d+ %d+ %d+) [1-9]%d*(.*)$')
    if head then
        -- bug STARTED_EXPIRES: if false then
        plan_set(id, 'quern_opts', head .. ' 0' .. tail)
    end
end

local function plan_archive(id, past, text)
    past.failed_ms, past.ended_ms, past.since = now_ms, now_ms, '0'
    plan_lock(id, 'archived', 0)
    plan_move(id, 'archived', now_s, past, with_fields(message_of(id), failure(nil, text)))
    processed = processed + 1
    failed = failed + 1
end

-- Ends a run whose process has died or whose lease has expired. `loss`: past, run (as read), place
-- (kept one), token, fence (for its place), started, charged, cause, error (nil: none), last (in
-- words), is_probe, run.opts (quern_opts); where it is charged what deaths_charge wants. Returns
-- whether it is archived. The token of a run that may still be alive stays, for the salvage.
local function plan_loss(id, loss)
    local past = loss.past
    local keeps_token = loss.cause == @QUERN_CAUSE_LEASE_EXPIRED@ or
        loss.cause == @QUERN_CAUSE_WORKER_DIED@
    local verdict, delay_ms = loss.started and loss.spent and 'spent' or 'back', nil
    past.cause, past.ended_ms, past.since = loss.cause, 0, '0'
    if loss.started then
        plan_begun(id, loss.run.opts)
    end
    if loss.charged then
        verdict, delay_ms = deaths_charge(past, loss)
    end
    if verdict == 'poison' then
        plan_archive(id, past, string.format(
            'poison: %.0f deaths, %.0f of them alone; the last: ', past.crashes, past.lone) ..
            loss.last)
        return true
    elseif verdict == 'spent' then
        -- bug SPENT_RUN_AGAIN: elseif false then
        plan_archive(id, past, 'no attempts left: ' .. loss.last)
        return true
    end
    if loss.error then
        past.failed_ms = now_ms
        plan_set(id, 'msg', with_fields(message_of(id), failure(nil, loss.error)))
    end
    if verdict == 'retry' then
        past.keeps_token = keeps_token
        plan_retry(id, now_ms + delay_ms, past)
        return false
    end
    local since = loss.run.since
    if since == '0' then
        since = time[1] .. string.format('%06d000', time[2])
    end
    if keeps_token then
        past.since, since = since, nil
    end
    if loss.charged and loss.is_probe then
        -- bug PROBE_NOT_BEHIND: if false then
        plan_behind(id, past, since)
    else
        plan_back(id, loss.place, loss.fence, past, since)
    end
    return false
end

-- --- Reading what will be written ---

-- The head of pending as it will be: those that came back are in order of their places, before all
-- that have none. Returns how many are taken off, and the ids that replace them, from the head on.
-- It reads some hundred at most; tasks behind them are then reached too early.
local function read_head()
    local merged, seen, taken, next_back = {}, {}, 0, 1
    table.sort(back, function(a, b)
        return a.place < b.place or (a.place == b.place and a.at < b.at)
    end)
    for _, entry in ipairs(back) do
        seen[entry.id] = true
    end
    local last = back[#back].place
    while taken < 256 do
        local ids = redis.call('LRANGE', Q .. 'pending', -(taken + 16), -(taken + 1))
        local place
        for i = #ids, 1, -1 do
            place = place_read(fields_of(ids[i], 'quern_place')[1])
            if not place or place > last then
                ids = {}
                break
            end
            while back[next_back] and back[next_back].place < place do
                merged[#merged + 1] = back[next_back].id
                next_back = next_back + 1
            end
            if not seen[ids[i]] then
                merged[#merged + 1] = ids[i]
            end
            taken = taken + 1
        end
        if #ids < 16 then
            break
        end
    end
    for i = next_back, #back do
        merged[#merged + 1] = back[i].id
    end
    return taken, merged
end

-- The tasks for which the archive has no room, the oldest first. Prune keeps it at its size; here
-- it is only kept from growing far beyond that if no worker prunes, since Go's own trimming breaks
-- at 8 000 too many. If the hash names another state, only the entry is removed.
local function read_surplus()
    local size = redis.call('ZCARD', Q .. 'archived') + #moved.archived / 2
    local ids, count_gone = {}, 0
    if size <= @QN_ARCHIVE_SIZE_MAX@ + ARCHIVE_SLACK then
        return ids, 0
    end
    local archiving = {}
    for i = 2, #moved.archived, 2 do
        archiving[moved.archived[i]] = true
    end
    for _, id in ipairs(redis.call('ZRANGE', Q .. 'archived', 0, ARCHIVE_SLACK - 1)) do
        if not archiving[id] then
            local fields = fields_of(id, 'state', 'unique_key')
            ids[#ids + 1] = id
            if fields[1] == 'archived' then
                plan_delete(id, fields[2])
                count_gone = count_gone + 1
            end
        end
    end
    return ids, count_gone
end

-- --- Writing ---

local function write_to(command, key, list)
    for i = 1, #list, 1000 do
        redis.call(command, key, unpack(list, i, math.min(i + 999, #list)))
    end
end

local function write_fields()
    for _, change in ipairs(changes) do
        redis.call('HSET', unpack(change))
    end
    for _, removal in ipairs(removals) do
        redis.call('HDEL', unpack(removal))
    end
end

local function write_zsets(surplus, surplus_count, trimmed)
    write_to('ZADD', Q .. 'retry', moved.retry)
    write_to('ZADD', Q .. 'quern:due', due)
    write_to('ZREM', Q .. 'quern:due', whole)
    write_to('ZADD', Q .. 'completed', moved.completed)
    write_to('ZADD', Q .. 'archived', moved.archived)
    write_to('ZREM', Q .. 'archived', surplus)
    if surplus_count > 0 then
        redis.call('HSET', Q .. 'quern:meta', 'trimmed', whole_number(trimmed + surplus_count))
    end
end

local function write_lists(taken, merged)
    write_to('ZREM', Q .. 'retry', from_retry)
    write_to('ZREM', Q .. 'scheduled', from_scheduled)
    if taken > 0 then
        redis.call('RPOP', Q .. 'pending', taken)
    end
    if #merged > 0 then
        local ids = {}
        for i = #merged, 1, -1 do
            ids[#ids + 1] = merged[i]
        end
        redis.call('RPUSH', Q .. 'pending', unpack(ids))
        -- bug GIVE_BACK_AT_TAIL: redis.call('LPUSH', Q .. 'pending', unpack(ids))
    end
    write_to('LPUSH', Q .. 'pending', behind)
    -- Not earlier: they may be in the head that was just taken off as it was read.
    for _, id in ipairs(from_pending) do
        redis.call('LREM', Q .. 'pending', -1, id)
    end
end

-- The index of charged tasks; `charged` in quern:meta marks that there is one. It is optional: an
-- index of the wrong type keeps no run from ending. When the head of pending changes, the number of
-- charged ones there is no longer known.
local function write_charged(known)
    for level, list in pairs(charged) do
        redis.pcall('ZADD', Q .. 'quern:charged:' .. level, unpack(list))
    end
    if next(charged) and known ~= '1' then
        redis.call('HSET', Q .. 'quern:meta', 'charged', '1')
    end
    if #back > 0 then
        redis.call('DEL', Q .. 'quern:skip')
    end
end

-- Carries out the plan.
local function end_write()
    local taken, merged, surplus, surplus_count, trimmed = 0, {}, {}, 0, 0
    if #back + #behind > 0 then
        redis.call('LLEN', Q .. 'pending')
    end
    if #back > 0 then
        taken, merged = read_head()
    end
    if #moved.retry + #from_retry > 0 then
        redis.call('ZCARD', Q .. 'retry')
        redis.call('ZCARD', Q .. 'quern:due')
    end
    if #moved.completed > 0 then
        redis.call('ZCARD', Q .. 'completed')
    end
    if #moved.archived > 0 then
        surplus, surplus_count = read_surplus()
        trimmed = redis.call('HGET', Q .. 'quern:meta', 'trimmed') or ''
        trimmed = tonumber(string.match(trimmed, '^%d+$') or 0)
    end
    local known = next(charged) and redis.call('HGET', Q .. 'quern:meta', 'charged')
    done_write()
    write_lists(taken, merged)
    write_fields()
    write_zsets(surplus, surplus_count, trimmed)
    for _, entry in ipairs(locks) do
        lock_renew(entry.id, entry.lock, entry.fate)
    end
    write_charged(known)
end
