-- lib_deaths.lua - the consequences of the death of a process: the rules of src/task/deaths.c in
-- Lua. Change both together. Expects now_ms.
--
-- The brake of a queue on a host is the field "h:<host>" of quern:meta: "ok_at streak probes
-- probe_at touched probe_token probe_id"; moments in ms; touched: when it was last written; token
-- and id: of the run that is the probe ("0" and "": none). Garbage counts as no record.


-- A row of digits as a number; a larger one than Lua counts exactly is the largest.
local function number_of(word)
    return math.min(tonumber(word or '') or 0, 9e15)
end

-- --- One task ---

-- Charges the task and returns what happens to it: "back", "retry" and after how many ms, "spent"
-- or "poison". death: started_ms, seen_ms (the last sign of life of its process; nil: it has died
-- just now), ok_at (on the same host), lone, child (its own process died, no worker), spent.
local function deaths_charge(past, death)
    local started_ms = math.min(death.started_ms, now_ms)
    local until_ms = math.min((death.seen_ms or now_ms) + @QN_HEARTBEAT_MS@, now_ms)
    local lived_ms = math.max(until_ms - started_ms, 0)
    if past.crashes <= 0 or now_ms - past.crashed_ms > @QN_CHARGE_WINDOW_MS@ then
        past.crashes, past.lone, past.level, past.life_ms = 0, 0, 0, 0
        -- A good end that is dated in the future happened before this death.
        past.crashed_ms = death.ok_at > now_ms and death.ok_at or started_ms
    elseif past.crashed_ms > now_ms then -- the clock was set back
        past.crashed_ms = started_ms
    end
    past.crashes = past.crashes + 1
    past.lone = past.lone + (death.lone and 1 or 0)
    local step = death.child and 0 or 1
    -- bug CHILD_ISOLATED: local step = 1
    past.level = math.min(past.level + step, @QN_ALONE_CHARGES@)
    -- bug PARENT_NOT_ISOLATED: past.level = 0
    past.life_ms, past.died_ms = math.max(past.life_ms, lived_ms), now_ms
    if death.lone and past.crashes >= @QN_POISON_CHARGES@ and past.lone >= @QN_POISON_LONE@ and
        death.ok_at > past.crashed_ms and death.ok_at <= now_ms then
        return 'poison'
    elseif death.spent then
        return 'spent'
    elseif past.crashes == 1 then
        return 'back'
    end
    return 'retry', @QN_CHARGED_WAIT_MS@
end

-- --- The brake ---

local function brake_read(text)
    local ok_at, streak, probes, probe_at, touched, token, id =
        string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
    return {ok_at = number_of(ok_at), streak = number_of(streak), probes = number_of(probes),
        probe_at = number_of(probe_at), touched = number_of(touched), token = token or '0',
        id = id or '', was_on = number_of(streak) >= @QN_BRAKE_DEATHS@}
end

local function brake_text(brake)
    return string.format('%.0f %.0f %.0f %.0f %.0f ', brake.ok_at, brake.streak, brake.probes,
        brake.probe_at, now_ms) .. brake.token .. ' ' .. brake.id
end

local function brake_is_on(brake)
    return brake.streak >= @QN_BRAKE_DEATHS@
end

local function brake_delay_ms(probes)
    local doublings = probes - @QN_BRAKE_EVEN_PROBES@
    if doublings <= 0 then
        return @QN_BRAKE_MS_MIN@
    end
    return math.min(@QN_BRAKE_MS_MIN@ * 2 ^ math.min(doublings, 16), @QN_BRAKE_MS_MAX@)
end

local function brake_death(brake, is_probe)
    brake.streak = brake.streak + 1
    if is_probe then
        brake.probes, brake.token, brake.id = brake.probes + 1, '0', ''
    end
    if brake_is_on(brake) then
        brake.probe_at = now_ms + brake_delay_ms(brake.probes)
    end
    brake.changed = true
end

local function brake_release(brake)
    local age_ms = now_ms - brake.ok_at
    if brake.streak > 0 or age_ms >= @QN_OK_NOTE_MS@ or age_ms < 0 then
        brake.ok_at, brake.streak, brake.probes, brake.probe_at = now_ms, 0, 0, 0
        brake.token, brake.id, brake.changed = '0', '', true
    end
end

-- It is longer than the longest delay only if the clock was set back.
local function brake_wait_ms(brake)
    local wait_ms = brake.probe_at - now_ms
    return wait_ms > 0 and wait_ms <= @QN_BRAKE_MS_MAX@ and wait_ms or 0
end

-- The command that notes in quern:braked (host -> "1") whether it is on, or nil if that is
-- unchanged: arm.lua must not read quern:meta, where each lease writes.
local function brake_note(prefix, host, brake)
    if brake_is_on(brake) == brake.was_on then
        return nil
    end
    return {brake.was_on and 'HDEL' or 'HSET', prefix .. 'quern:braked', host,
        not brake.was_on and '1' or nil}
end

-- --- The solo lock ---

-- The field "solo" of quern:meta: "since until rest owner": since when it is held (or was
-- returned), until when at most, until when the queue rests, the id of the worker ("": none).
local function solo_read(text)
    local since, until_ms, rest, owner = string.match(text or '', '^(%d+) (%d+) (%d+) (.*)$')
    local lock = {since = number_of(since), until_ms = number_of(until_ms),
        rest = number_of(rest), owner = owner or ''}
    if lock.rest > now_ms + 86400000 then -- it is never held that long
        lock.rest = 0
    end
    if lock.since > now_ms then -- the clock went back
        lock.until_ms = math.max(lock.until_ms - (lock.since - now_ms), 0)
        lock.since, lock.rest = now_ms, 0
    end
    return lock
end

local function solo_text(lock)
    return string.format('%.0f %.0f %.0f ', lock.since, lock.until_ms, lock.rest) .. lock.owner
end

-- How long ago it was last taken or kept; and how much of that counts: none where the clock went
-- back, or ahead by more than the lock lasts, since then it was set.
local function solo_age(lock)
    local age = now_ms - (lock.until_ms - @QN_SOLO_MS@)
    return age, age >= 0 and age <= @QN_SOLO_MS@ and age or 0
end

local function solo_keep(lock)
    local age, counted = solo_age(lock)
    lock.since, lock.until_ms = lock.since + age - counted, now_ms + @QN_SOLO_MS@
end

-- It is returned, and the queue rests for as long as it was held and this time more.
local function solo_return(lock, more_ms)
    local _, counted = solo_age(lock)
    lock.rest = now_ms + math.max(lock.until_ms - @QN_SOLO_MS@ - lock.since, 0) + counted + more_ms
    lock.since, lock.until_ms, lock.owner = now_ms, 0, ''
end
