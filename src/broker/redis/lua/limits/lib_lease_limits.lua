-- lib_lease_limits.lua - the part of lease.lua for queues with limits: how much less of them is
-- read, and what was used. Expects lib_limits.lua and what lease.lua has read; fills the table
-- `limits`.
-- of[i]: those of a queue; gates_of_all[i]: whether types or keys of all queues limit it.
limits = {of = {}, gates_of_all = {}}
for i = 1, queue_count do
    if odd_queues[i] and odd_queues[i].limited then
        limits.of[i], limits.gates_of_all[i] = limits_read(KEYS[i], now_ms, limits)
    end
end

-- How many this lease takes of a semaphore, by all queues that have it.
local function taken_of(name)
    local taken = 0
    for i = 1, queue_count do
        for _, semaphore in ipairs(limits.of[i] and limits.of[i].semaphores or {}) do
            if semaphore.name == name and queues[i] then
                taken = taken + queues[i].count
            end
        end
    end
    return taken
end

-- How many starts it uses of the limit of all queues.
local function started_of_all()
    local started = 0
    for i = 1, queue_count do
        local own = limits.of[i]
        started = started + (own and own.starts_of_all and queues[i] and queues[i].count or 0)
    end
    return started
end

-- How many of `want` may be read; a queue that can give no more is marked as empty.
function limits.want(i, want)
    local own, queue = limits.of[i], queues[i]
    local room = own and limits_room(own) - (queue and queue.count or 0)
    for _, semaphore in ipairs(own and own.semaphores or {}) do
        room = math.min(room, semaphore.count - semaphore.used - taken_of(semaphore.name))
        -- bug TOKENS_COUNTED_APART: room = math.min(room, semaphore.count - semaphore.used)
    end
    if own and own.starts_of_all then
        room = math.min(room, starts_room(own.starts_of_all) - started_of_all())
        -- bug ALL_COUNTED_APART: room = math.min(room, starts_room(own.starts_of_all))
    end
    if not own or want <= room then
        return want
    elseif room > 0 then
        return room
    elseif queue then
        queue.empty = true
    else
        queues[i] = false
    end
    return 0
end

-- So many were leased.
function limits.take(i, count)
    local own = limits.of[i]
    if own and count > 0 then
        own.running = own.running + count
        for _, starts in ipairs(own.rates) do
            starts_take(starts, count)
        end
        limits.take_tokens(queues[i], own.semaphores)
    end
end

-- One for each run but those that were only leased to be archived.
function limits.take_tokens(queue, semaphores)
    local names, odd = {}, queue.odd or {}
    local until_s = string.format('%d', math.ceil((now_ms + ARGV[5]) / 1000))
    for k = 1, semaphores[1] and queue.count or 0 do
        if not (odd[k] and odd[k].late) then
            names[#names + 1] = queue.names[k]
        end
    end
    for _, semaphore in ipairs(names[1] and semaphores or {}) do
        tokens_take(semaphore, names, until_s, math.floor(now_ms / 1000))
    end
end

-- A token of Go may come back, or end, without any news from this queue.
local function tokens_wait_ms(own)
    for _, semaphore in ipairs(own.semaphores) do
        if semaphore.used + taken_of(semaphore.name) >= semaphore.count then
            return @QN_LIMIT_TOKEN_MS@
        end
    end
    return 0
end

-- Writes what was used; returns in how many ms the next task may start, 0: now, or when a run
-- ends, or no task waits.
function limits.finish(i)
    local own, prefix = limits.of[i], KEYS[i]
    local token_ms = own and tokens_wait_ms(own) or 0
    local wait = token_ms
    if not own or not own.rates[1] and token_ms == 0 then
        return 0
    end
    for _, starts in ipairs(own.rates) do
        if starts.changed then
            try('ZREM', prefix .. 'lease', '') -- for the other writes when memory is full
            starts_write(starts, now_ms)
        end
        wait = math.max(wait, starts_wait_ms(starts, now_ms))
    end
    local size = odd_queues[i].paused == 0 and try('LLEN', prefix .. 'pending')
    if size == 0 and lanes and lanes.of[i] then
        size = try('ZCARD', prefix .. 'quern:lanes')
    end
    if type(size) ~= 'number' or size == 0 or own.runs and own.running >= own.runs then
        return 0
    end
    return wait
end
