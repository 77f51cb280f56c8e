-- recover.lua - ends the leases of one queue that nobody prolonged, and those of dead workers; mends
-- what is in `active` or `lease` and should not be. It looks at a page of each.
--
-- KEYS: prefix of the queue. ARGV: 1 how many leases may be ended, 2 the size of a page, 3 and 4
-- where the pages begin in `lease` and `active` (ranks), then the ids of workers that are dead.
-- Reply: {where the next pages begin in `lease` and `active`, 1 if the end of `lease` was reached,
-- then for each ended lease: id, cause, 1 if a crash was charged, 1 if it is poison}.
--
-- A task with a token was leased by us: its lease is over at the moment in quern_run, or, where that
-- does not fit the score (somebody mended the lease), at the score. One without is a Go worker's,
-- which may be 30 s late. Without dead workers only leases that may be over are looked at.
--
-- Nothing that works leaves an id in `active` without a lease, since all scripts move both at once.
-- Where one is found it gets a lease, and is treated like all others when that ends.
local Q = KEYS[1]
redis.call('ZREM', Q .. 'lease', '')
-- include: lib_count.lua
-- include: lib_end.lua
local limit, page = tonumber(ARGV[1]), tonumber(ARGV[2])
local lease_from, active_from = tonumber(ARGV[3]), tonumber(ARGV[4])
local reply = {0, 0, 0}
local dead, dead_ids = {}, {}
for i = 5, #ARGV do
    dead_ids[#dead_ids + 1] = ARGV[i]
    dead[ARGV[i]] = {}
end

-- How many of the leases, in their order, may be over.
local function lease_end()
    if #dead_ids > 0 then
        return redis.call('ZCARD', Q .. 'lease')
    end
    return redis.call('ZCOUNT', Q .. 'lease', '-inf', now_s + 1)
end

local function has_message(id)
    local size = redis.pcall('HSTRLEN', T .. id, 'msg')
    return type(size) == 'number' and size > 0
end

-- What is known of an entry of `lease`.
local function entry_of(id, score)
    local fields = fields_of(id, 'state', 'pending_since', 'quern_run', 'quern_past', 'quern_place')
    local entry = {id = id, state = fields[1], token = fields[2] or nil, past = fields[4],
        place = fields[5], run = run_read(fields[3]), late_s = now_s - score}
    local over_ms = score * 1000
    if entry.token and math.ceil(entry.run.until_ms / 1000) == score then
        over_ms = entry.run.until_ms
    end
    entry.is_over = over_ms <= now_ms and (entry.token or entry.late_s >= 30)
    -- A Go worker leases for 30 s, and its run has started.
    entry.fence = entry.token and tonumber(string.sub(entry.token, 1, -4)) or (score - 30) * 1000000
    entry.started = not entry.token or entry.run.started
    return entry
end

local function end_lease(entry, cause, charge)
    local past = past_read(entry.past)
    local run = entry.token and entry.run or run_read()
    leaving[#leaving + 1] = entry.id
    local charged = charge and entry.started
    local poison = plan_crash(entry.id, {past = past, run = run, place = entry.place,
        token = entry.token, fence = entry.fence, charged = charged, cause = cause,
        last = cause == 6 and 'worker died' or 'lease expired'})
    reply[#reply + 1] = entry.id
    reply[#reply + 1] = cause
    reply[#reply + 1] = charged and 1 or 0
    reply[#reply + 1] = poison and 1 or 0
end

-- Sorts a page of `lease`: what ends, what is mended. Returns how many it looked at, and how many
-- of those stay.
local over, stale, stubs = {}, {}, {}
local ending = 0
local function look_at_leases(till)
    local stay, looked = 0, 0
    if lease_from >= till then
        return looked, stay
    end
    local rows = redis.call('ZRANGE', Q .. 'lease', lease_from,
        math.min(lease_from + page, till) - 1, 'WITHSCORES')
    for i = 1, #rows, 2 do
        if ending >= limit then
            break
        end
        looked = looked + 1
        local entry = entry_of(rows[i], tonumber(rows[i + 1]))
        local of_dead = entry.token and dead[entry.run.worker]
        if entry.state == 'active' and (of_dead or entry.is_over) and has_message(entry.id) then
            local list = of_dead or over
            list[#list + 1] = entry
            ending = ending + 1
        elseif entry.late_s >= 30 and (entry.state ~= 'active' or not has_message(entry.id)) then
            stale[#stale + 1] = entry.id
            stubs[#stubs + 1] = entry.state == 'active' and T .. entry.id or nil
        else
            stay = stay + 1
        end
    end
    return looked, stay
end

-- The death of one worker is one event of the streak, however many runs it had; the most suspect
-- task names it.
local gone = {}
local function end_worker(id)
    local charge = is_chargeable()
    local first = nil
    for _, entry in ipairs(dead[id]) do
        end_lease(entry, 6, charge)
        if entry.started and
            (not first or past_read(entry.past).crashes > past_read(first.past).crashes) then
            first = entry
        end
    end
    local heartbeat, status, owner = string.match(
        redis.call('HGET', Q .. 'quern:workers', id) or '', '^(%S+) (%S+) (.*)$')
    if first and status ~= 'gone' then
        streak_goes_on(first.id)
        gone[#gone + 1] = id
        gone[#gone + 1] = (heartbeat or '0') .. ' gone ' .. (owner or '')
    end
end

-- Looks at a page of `active` for ids without a lease.
local adopted, ghosts = {}, {}
local function look_at_active(size)
    local ids = redis.call('LRANGE', Q .. 'active', active_from, active_from + page - 1)
    local leases = #ids > 0 and redis.call('ZMSCORE', Q .. 'lease', unpack(ids)) or {}
    for i, id in ipairs(ids) do
        if not leases[i] and #adopted + #ghosts < 100 then
            if fields_of(id, 'state')[1] == 'active' and has_message(id) then
                adopted[#adopted + 1] = now_s + 30
                adopted[#adopted + 1] = id
            else
                ghosts[#ghosts + 1] = id
            end
        end
    end
    reply[2] = active_from + page < size and active_from + page or 0
end

streak_read()
redis.call('HLEN', Q .. 'quern:workers')
local till = lease_end()
if lease_from >= till then
    lease_from = 0
end
local looked, stay = look_at_leases(till)
for _, id in ipairs(dead_ids) do
    if #dead[id] > 0 then
        end_worker(id)
    end
end
for _, entry in ipairs(over) do
    end_lease(entry, 4, is_chargeable())
    if entry.started then
        streak_goes_on(entry.id)
    end
end
local active_size = redis.call('LLEN', Q .. 'active')
if active_size ~= redis.call('ZCARD', Q .. 'lease') then
    look_at_active(active_size)
end
end_write()

write_to('ZREM', Q .. 'lease', stale)
for _, id in ipairs(stale) do
    redis.call('LREM', Q .. 'active', -1, id)
end
write_each('DEL', stubs, 1000)
for i = 1, #adopted, 2 do
    redis.call('ZADD', Q .. 'lease', 'NX', adopted[i], adopted[i + 1])
end
for _, id in ipairs(ghosts) do
    redis.call('LREM', Q .. 'active', -1, id)
    if fields_of(id, 'state')[1] == 'active' then
        redis.call('DEL', T .. id)
    end
end
write_to('HSET', Q .. 'quern:workers', gone)
reply[1] = lease_from + stay
if lease_from + looked >= till then
    reply[1], reply[3] = 0, 1
end
return reply
