-- recover.lua - ends the leases of one queue that were not extended, and those of dead workers;
-- repairs wrong entries of `active` and `lease`. It reads a page of `active`.
--
-- KEYS: prefix of the queue. ARGV: 1 how many leases may be ended, 2 the size of a page, 3 where it
-- begins (a rank in `active`, from the oldest on), 4 the argument that the page before
-- returned (lib_pages.lua), 5 the latest that the clock may show, in ms (later: it was set, and no
-- lease has expired; "": any time), then pairs of a letter and a worker's id:
--   d  its process is dead: all its leases end
--   l  its process lives
--   b  its host has rebooted: no task is charged
-- Reply: {where the next page begins, 1 if the end was reached, the clock in ms, ids of workers
-- whose death is not noted yet: their tasks stay until that is done (gone.lua), the argument
-- for the next page, 1 if ids before this page may have been passed over, then for each
-- ended lease: id, cause, 1 if it was charged, 1 if it is archived}.
--
-- A task with a token was leased by us: its lease expires at the moment in quern_run, or, if
-- that does not fit the score (the lease was repaired), at the score. One without is a Go
-- worker's, which may be 30 s late, and ends as asynq's recoverer ends it. Without dead workers
-- only leases that may have expired are read. Who is charged: src/task/deaths.h. A record is
-- "heartbeat_ms status owner host"; once noted, the status is "gone-<started runs>", and "paid-.."
-- after the brake of this queue on that host has counted it.
--
-- No script leaves an id in `active` without a lease, since all move both at once. If one is found
-- it gets a lease, and is treated like all others when that ends. A lease
-- without an id in `active` is ended a minute after its time. An id without a message has no task
-- any more (asynq leaves such ids when a hash is deleted by hand) and is removed.
local Q = KEYS[1]
redis.call('ZREM', Q .. 'lease', '')
-- include: ends/lib_count.lua
-- include: lib_done.lua
local now_ms = now_s * 1000 + math.floor(tonumber(time[2]) / 1000)
-- include: lib_lock.lua
-- include: lib_renew.lua
-- include: lib_deaths.lua
-- include: lib_varint.lua
-- include: lib_fields.lua
-- include: ends/lib_runs.lua
-- include: lib_end.lua
-- include: lib_pages.lua

-- asynq's retry and retried; nil if it is not a message. Of a repeated field the last one
-- counts, as for protobuf.
local function attempts_of(message)
    local found = {[@QN_ASYNQ_TAG_RETRY@] = 0, [@QN_ASYNQ_TAG_RETRIED@] = 0}
    local is_sound = each_field(message, function(tag, value)
        if found[tag] then
            found[tag] = value
        end
    end)
    if not is_sound then
        return nil
    end
    return math.max(found[@QN_ASYNQ_TAG_RETRY@], 0),
        math.min(math.max(found[@QN_ASYNQ_TAG_RETRIED@], 0), 2147483647)
end

local limit, page = tonumber(ARGV[1]), tonumber(ARGV[2])
local from, is_sure = page_begin(tonumber(ARGV[3]), ARGV[4])
local is_turned = ARGV[5] ~= '' and now_ms > tonumber(ARGV[5])
local letters, dead_ids = {}, {}
for i = 6, #ARGV, 2 do
    letters[ARGV[i + 1]] = ARGV[i]
    dead_ids[#dead_ids + 1] = ARGV[i] == 'd' and ARGV[i + 1] or nil
end
-- The solo lock of a dead worker is returned for it, and that of one without a record: it has left,
-- or was dead and forgotten before its last request was executed.
local solo_field = redis.pcall('HGET', Q .. 'quern:meta', 'solo')
local solo = solo_read(type(solo_field) == 'string' and solo_field or '')
local is_solo_lost = solo.owner ~= '' and (letters[solo.owner] == 'd' or
    redis.call('HEXISTS', Q .. 'quern:workers', solo.owner) == 0)
local active_size = redis.call('LLEN', Q .. 'active')
if #dead_ids == 0 and not is_solo_lost and
    redis.call('ZCOUNT', Q .. 'lease', '-inf', now_s + 1) == 0 and
    active_size == redis.call('ZCARD', Q .. 'lease') then
    -- Other scripts skip keys of the wrong type, so that other queues are not affected: reported
    -- here.
    redis.call('LLEN', Q .. 'pending')
    for _, key in ipairs({'scheduled', 'retry', 'quern:due'}) do
        redis.call('ZCARD', Q .. key)
    end
    return {0, 1, whole_number(now_ms), {}, '', 0}
end

local function has_message(id)
    local size = redis.pcall('HSTRLEN', T .. id, 'msg')
    return type(size) == 'number' and size > 0
end

-- Whether the task is in the place of its state, which is not `active`. If not, it is treated as
-- active, since it was found here.
local function is_elsewhere(id, state)
    if state == 'pending' then
        return redis.call('LPOS', Q .. 'pending', id, 'RANK', -1)
    elseif state == 'aggregating' then
        return true
    elseif state == 'active' or not state or not string.match(state, '^%l+$') then
        return false
    end
    local score = redis.pcall('ZSCORE', Q .. state, id)
    return type(score) == 'string'
end

-- The data of a task with a lease.
local function entry_of(id, score)
    local fields = fields_of(id, 'state', 'pending_since', 'quern_run', 'quern_past', 'quern_place',
        'quern_opts', 'quern_runs')
    local token = fields[2] or nil
    local entry = {id = id, token = token, past = past_read(fields[4]), place = fields[5],
        run = run_read(token and fields[3]), late_s = now_s - score, state = fields[1]}
    entry.run.opts, entry.runs = fields[6], fields[7]
    local over_ms = score * 1000
    if token and math.ceil(entry.run.until_ms / 1000) == score then
        over_ms = entry.run.until_ms
    end
    entry.is_over = not is_turned and over_ms <= now_ms and
        (token and fields[1] == 'active' or entry.late_s >= 30)
    -- A Go worker leases for 30 s, and its run has started.
    entry.started = not token or entry.run.started
    entry.fence = token and tonumber(string.sub(token, 1, -4)) or (score - 30) * 1000000
    return entry
end

-- --- Charges ---

-- A worker whose process we cannot see is dead when it was silent for longer.
local SILENT_MS = 3 * @QN_HEARTBEAT_MS@

-- The facts about a worker: host, whether it died, and for a death that is to be charged `runs`,
-- how many it had started, or `asks` where that is not noted yet. `paid`: its brake has counted it.
local workers, asked = {}, {}
local function worker_of(id)
    if workers[id] then
        return workers[id]
    end
    local heartbeat, status, owner, host = string.match(
        redis.call('HGET', Q .. 'quern:workers', id) or '', '^(%d+) (%S+) (%S+) ?(.*)$')
    local worker = {id = id, dead = letters[id] == 'd', heartbeat = heartbeat, owner = owner,
        host = host}
    local is_heard = number_of(heartbeat) + SILENT_MS >= now_ms
    local lives = letters[id] == 'l' or not worker.dead and is_heard
    -- bug LIVING_OWNER_CHARGED: local lives = false
    worker.died = worker.dead or heartbeat and not lives
    local noted, runs = string.match(status or '', '^(%a+)%-(%d+)$')
    local leaves = status == 'draining' or status == 'quiet'
    if lives or not heartbeat or letters[id] == 'b' or leaves then
        -- bug LEAVING_WORKER_CHARGED: if lives or not heartbeat or letters[id] == 'b' then
        worker.runs = nil
    elseif noted then
        worker.runs, worker.paid = number_of(runs), noted == 'paid'
    else
        worker.asks = true
        asked[#asked + 1] = id
    end
    workers[id] = worker
    return worker
end

-- The brake of this queue on its host counts the death of a worker once, if it had started a run of
-- this queue.
local brakes, gone = {}, {}
local function brake_of(host)
    if not brakes[host] then
        brakes[host] = brake_read(redis.call('HGET', Q .. 'quern:meta', 'h:' .. host))
        brakes[host].host = host
    end
    return brakes[host]
end
local function pay(worker)
    local brake = brake_of(worker.host)
    local run = fields_of(brake.id, 'state', 'pending_since', 'quern_run')
    local is_probe = brake.token ~= '0' and run[1] == 'active' and run[2] == brake.token and
        run_read(run[3]).worker == worker.id
    worker.probe = is_probe and brake.token
    brake_death(brake, is_probe)
    worker.paid = true
    gone[#gone + 1] = worker.id
    gone[#gone + 1] = string.format('%s paid-%.0f %s %s', worker.heartbeat, worker.runs,
        worker.owner, worker.host)
end

-- --- Finding the leases to end ---

-- Sorts a page. Ids that leave `active` are marked by their index, so that one walk along the list
-- removes them all.
local over, marks, adopted, stubs = {}, {}, {}, {}
local ending = 0
local function sort_over(entry, list)
    if has_message(entry.id) and not is_elsewhere(entry.id, entry.state) then
        list[#list + 1] = entry
        ending = ending + 1
    else
        leaving[#leaving + 1] = entry.id
        stubs[#stubs + 1] = entry.state == 'active' and T .. entry.id or nil
    end
end
local function sort_entry(index, id, score)
    if not score then
        local state = fields_of(id, 'state')[1]
        local stays = has_message(id) and not is_elsewhere(id, state)
        if stays then
            adopted[#adopted + 1] = now_s + 30
            adopted[#adopted + 1] = id
        else
            marks[#marks + 1] = index
            stubs[#stubs + 1] = state == 'active' and T .. id or nil
        end
        return
    end
    if score > now_s + 1 and #dead_ids == 0 then
        return
    end
    local entry = entry_of(id, score)
    local is_ours = entry.token and entry.state == 'active'
    local is_of_dead = is_ours and letters[entry.run.worker] == 'd'
    if not is_of_dead and not entry.is_over then
        return
    end
    entry.worker = is_ours and worker_of(entry.run.worker) or {}
    if not entry.worker.asks then
        sort_over(entry, over)
        marks[#marks + 1] = index
    end
end
local function sort_page()
    local ids = redis.call('LRANGE', Q .. 'active', -(from + page), -(from + 1))
    local scores = #ids > 0 and redis.call('ZMSCORE', Q .. 'lease', unpack(ids))
    for i = #ids, 1, -1 do
        if ending >= limit then
            return #ids - i, ids
        end
        sort_entry(-(from + #ids - i + 1), ids[i], tonumber(scores[i] or ''))
    end
    return #ids, ids
end

-- Leases without an id in `active`; few, since each costs a walk along the list.
local function find_lost()
    local seen = {}
    for _, id in ipairs(leaving) do
        seen[id] = true
    end
    for _, entry in ipairs(over) do
        seen[entry.id] = true
    end
    local rows = redis.call('ZRANGEBYSCORE', Q .. 'lease', '-inf', now_s - 60, 'WITHSCORES',
        'LIMIT', 0, 10)
    for i = 1, #rows, 2 do
        local id = rows[i]
        if not seen[id] and ending < limit and
            not redis.call('LPOS', Q .. 'active', id, 'RANK', -1) then
            local entry = entry_of(id, tonumber(rows[i + 1]))
            entry.worker = {}
            sort_over(entry, over)
        end
    end
end

-- --- Ending it ---

-- As asynq's recoverer: a failure, at asynq's delay. A message that cannot be read goes back as it
-- is. The random number is made from the microseconds.
local function end_of_go(entry)
    local text = 'asynq: task lease expired'
    local message = message_of(entry.id)
    local retry_max, retried = attempts_of(message)
    plan_begun(entry.id, entry.run.opts)
    entry.past.cause, entry.past.ended_ms, entry.past.since =
        @QUERN_CAUSE_LEASE_EXPIRED@, 0, '0'
    if not retry_max then
        plan_back(entry.id, entry.place, entry.fence, entry.past,
            time[1] .. string.format('%06d000', time[2]))
    elseif retried >= retry_max then
        plan_archive(entry.id, entry.past, text)
        return true
    else
        local n = math.min(retried, 1000)
        local random = (tonumber(time[2]) + 7 * #leaving) % 30
        local at_s = now_s + n ^ 4 + 15 + random * (n + 1)
        entry.past.failed_ms = now_ms
        plan_retry(entry.id, at_s * 1000, entry.past,
            with_fields(message, failure(retried + 1, text)))
        processed, failed = processed + 1, failed + 1
    end
    return false
end

-- The run as it is noted: of a dead worker it lived until the last sign of life at least.
local function note_run(entry)
    local worker, started_ms = entry.worker, number_of(entry.run.started_ms)
    local ended_ms = worker.died and math.min(number_of(worker.heartbeat), now_ms) or now_ms
    local ago_ms = ended_ms > started_ms and now_ms - ended_ms or 0
    local who = string.sub(entry.run.worker, 1, 64)
    if worker.host and worker.host ~= '' then
        local pid = string.match(worker.owner, '^[^:]*:[^:]*:(%d+)') or ''
        who = string.sub(worker.host, 1, 256) .. ':' .. pid .. ':' .. who
    end
    entry.past.runs = runs_text(string.format('%d %.0f %.0f %.0f\31%s\31',
        worker.died and @QUERN_RUN_WORKER_DIED@ or @QUERN_RUN_LEASE_EXPIRED@, entry.past.cause,
        math.max(now_ms - ago_ms - started_ms, 0), ago_ms, (string.gsub(who, '[%z\30\31]', ' '))),
        entry.runs)
end

local function end_of_ours(entry)
    local worker = entry.worker
    if entry.started then
        note_run(entry)
    end
    local charged = worker.runs and entry.started
    local retry_max, retried = 1, 0
    if entry.started then
        retry_max, retried = attempts_of(message_of(entry.id))
    end
    local text = worker.died and 'worker died' or 'lease expired'
    return charged, plan_loss(entry.id, {past = entry.past, run = entry.run, place = entry.place,
        token = entry.token, fence = entry.fence, started = entry.started, charged = charged,
        cause = worker.died and @QUERN_CAUSE_WORKER_DIED@ or @QUERN_CAUSE_LEASE_EXPIRED@,
        last = text, spent = retry_max and retried >= retry_max,
        started_ms = number_of(entry.run.started_ms), seen_ms = number_of(worker.heartbeat),
        lone = worker.runs == 1,
        -- bug SHARED_IS_LONE: lone = true,
        ok_at = charged and brake_of(worker.host).ok_at or 0,
        is_probe = worker.probe and worker.probe == entry.token})
end

local reply = {0, 0, whole_number(now_ms), asked, '', is_sure and 0 or 1}
local function end_lease(entry)
    local charged, archived = false
    leaving[#leaving + 1] = entry.id
    if not entry.token then
        archived = end_of_go(entry)
    else
        charged, archived = end_of_ours(entry)
    end
    reply[#reply + 1] = entry.id
    reply[#reply + 1] = entry.worker.died and 6 or 4
    reply[#reply + 1] = charged and 1 or 0
    reply[#reply + 1] = archived and 1 or 0
end

local function end_solo()
    if is_solo_lost then
        -- bug LOCK_OF_GONE_KEPT: if is_solo_lost and letters[solo.owner] then
        solo_return(solo, @QN_SOLO_DEATH_MS@)
        meta_sets = {'solo', solo_text(solo)}
    end
end

redis.call('HLEN', Q .. 'quern:workers')
local looked, page_ids = sort_page()
local at_end = from + looked >= active_size
if at_end and not is_turned then
    find_lost()
end
for _, entry in ipairs(over) do
    if entry.worker.runs and entry.started and not entry.worker.paid then
        pay(entry.worker)
    end
end
for _, entry in ipairs(over) do
    end_lease(entry)
end
end_solo()
for host, brake in pairs(brakes) do
    if brake.changed then
        meta_sets, notes = meta_sets or {}, notes or {}
        meta_sets[#meta_sets + 1] = 'h:' .. host
        meta_sets[#meta_sets + 1] = brake_text(brake)
        notes[#notes + 1] = brake_note(Q, host, brake)
    end
end
end_write()
for _, index in ipairs(marks) do
    redis.call('LSET', Q .. 'active', index, 'quern:gone')
end
if #marks > 0 then
    redis.call('LREM', Q .. 'active', -#marks, 'quern:gone')
end
if #stubs > 0 then
    redis.call('DEL', unpack(stubs))
end
write_to('ZADD', Q .. 'lease', adopted)
write_to('HSET', Q .. 'quern:workers', gone)
local meta = leaving[1] and redis.call('HMGET', Q .. 'quern:meta', 'limits', 'sema') or {}
local limited, semaphores = meta[1], meta[2]
if semaphores then
-- include: limits/lib_tokens.lua
    tokens_return(tokens_of(semaphores), T, leaving)
end
if limited and limited ~= '1' then
-- include: limits/lib_holders.lua
    hold_free(Q, leaving)
    redis.call('DEL', Q .. 'quern:lanes:idle')
end
if at_end then
    reply[2] = 1
else
    local gone_at = {}
    for _, index in ipairs(marks) do
        gone_at[-from - index] = true
    end
    reply[1] = from + looked - #marks
    reply[5] = page_anchors(page_ids, looked, function(k)
        return gone_at[k]
    end, ARGV[4])
end
return reply
