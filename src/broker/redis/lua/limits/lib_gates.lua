-- lib_gates.lua - the limits of types and keys, of a queue and of all queues together: whether a
-- task of them may start. Expects lib_tokens.lua, lib_limits.lua, lib_lanes.lua and
-- lib_holders.lua.
--
-- In quern:limit:set '2r:<type>' and '3r:<key>' limit the tasks that run, '2s:' and '3s:' those
-- that start; the name '*' is each that has none of its own. quern:limit:use:2:<type> and
-- quern:limit:use:3:<key> are what is used of starts. asynq:quern:limit:... are those of all
-- queues, which hold beside them.

-- all: those of all queues, if the queue is bound by any. wait: in how many ms a start may be
-- possible again, 0: no task waits for that.
local function gates_open(Q, now_ms, all)
    return {Q = Q, now_ms = now_ms, known = {}, wait = 0, checks = 64, all = all}
end

-- Those of all queues, for all queues of a call. note: makes a queue count its runs for them, where
-- it does not; needed only to ask whether tasks may start.
local function gates_of_all(now_ms, note)
    return {Q = string.sub(KEYS[1], 1, 6), now_ms = now_ms, known = {}, checks = 64, note = note}
end

-- Whether all runs of the queue are counted; if not, some more of them are.
local function runs_counted(Q, note)
    local key = Q .. 'quern:limit:runs'
    local cursor = redis.pcall('ZSCORE', key, '\0')
    if type(cursor) == 'table' then
        redis.call('DEL', key)
        cursor = false
    end
    if not cursor and note then
        note(Q)
    end
    if cursor ~= '-1' and not string.match(cursor or '', '^%d+$') then
        cursor = '0'
    end
    for _ = 1, cursor == '-1' and 0 or 4 do
        local page = redis.pcall('ZSCAN', Q .. 'lease', cursor, 'COUNT', 256)
        if page.err then
            return true -- a damaged queue gives nothing
        end
        for k = 1, #page[2], 2 do
            local f = redis.pcall('HMGET', Q .. 't:' .. page[2][k], 'state', 'msg', 'quern_opts')
            if f[1] == 'active' and f[2] then
                hold_add(Q, page[2][k], lane_type_of(f[2]), lane_key_of(f[3]))
            end
        end
        cursor = page[1] == '0' and '-1' or page[1]
        redis.call('ZADD', key, cursor, '\0')
        if cursor == '-1' then
            break
        end
    end
    return cursor == '-1'
end

-- Whether all runs are counted that these gates ask for; gates.queues: where there are any.
local function gates_count(gates)
    gates.queues, gates.counted = {}, true
    for _, Q in ipairs(gates.note and queue_prefixes() or {gates.Q}) do
        -- bug OTHERS_NOT_COUNTED: for _, Q in ipairs(gates.note and {KEYS[1]} or {gates.Q}) do
        gates.counted = runs_counted(Q, gates.note) and gates.counted
        local size = redis.pcall('ZCARD', Q .. 'quern:limit:runs')
        gates.queues[#gates.queues + 1] = type(size) == 'number' and size > 1 and Q or nil
    end
end

-- scope: '2' of types, '3' of keys. false: it has no limit.
local function gate_of(gates, scope, name)
    local gate = name ~= '' and gates.known[scope .. name]
    if gate ~= nil then
        return gate
    end
    local Q = gates.Q
    local f = redis.pcall('HMGET', Q .. 'quern:limit:set', scope .. 'r:' .. name, scope .. 's:' ..
        name, scope .. 'r:*', scope .. 's:*')
    local runs = string.match(f[1] or f[3] or '', '^%d+$')
    local starts = starts_read(f[2] or f[4], gates.now_ms,
        Q .. 'quern:limit:use:' .. scope .. ':' .. name)
    gate = (runs or starts) and {of = gates, scope = scope, name = name, starts = starts,
        runs = runs and whole(runs, 0, @QN_LIMIT_COUNT_MAX@)} or false
    gates.known[scope .. name] = gate
    return gate
end

-- Before anything else is asked about its runs. parts: how many run in which queue.
local function gate_count(gate)
    local gates = gate.of
    if not gates.queues then
        gates_count(gates)
    end
    gate.running, gate.parts = 0, {}
    for _, Q in ipairs(gates.queues) do
        local running = hold_count(Q, gate.scope, gate.name)
        gate.running = gate.running + running
        gate.parts[#gate.parts + 1] = running > 0 and {Q = Q, running = running} or nil
    end
end

-- Drops what no longer runs, of some that hold this gate: Go may have ended them.
local function gate_check(gate)
    local low, high = hold_range(gate.scope .. gate.name)
    local gates, sum, left = gate.of, 0, 8
    for _, part in ipairs(gate.parts) do
        sum = sum + part.running
    end
    local first = sum > 8 and gates.now_ms % (sum - 7) or 0
    for _, part in ipairs(gate.parts) do
        local held = left > 0 and first < part.running and redis.pcall('ZRANGEBYLEX',
            part.Q .. 'quern:limit:runs', low, high, 'LIMIT', string.format('%d', first),
            string.format('%d', left)) or {}
        first = math.max(first - part.running, 0)
        for _, member in ipairs(held) do
            local id = string.sub(member, #gate.name + 3)
            left, gates.checks = left - 1, gates.checks - 1
            if not redis.pcall('ZSCORE', part.Q .. 'lease', id) then
                -- bug ENDED_RUN_HOLDS: if false then
                hold_free(part.Q, {id})
                part.running, gate.running = part.running - 1, gate.running - 1
            end
        end
    end
end

local function gate_may(gates, gate)
    if not gate then
        return true
    elseif gate.runs and not gate.running then
        gate_count(gate)
    end
    local of, runs = gate.of, gate.runs
    -- bug LANE_LIMIT_OFF_BY_ONE: local of, runs = gate.of, gate.runs and gate.runs + 1
    if runs and of.counted and gate.running >= runs and gate.running > 0 and of.checks > 0 then
        gate_check(gate)
    end
    local wait = nil
    if runs and not of.counted then
        wait = @QN_LIMIT_LOOK_MS@
    elseif runs and gate.running >= runs then
        -- The end of a run in another queue is no news of this one.
        wait = of.note and runs > 0 and @QN_LIMIT_TOKEN_MS@ or 0
        -- bug OTHERS_END_NOT_AWAITED: wait = 0
    elseif gate.starts and starts_room(gate.starts) <= 0 then
        wait = math.max(starts_wait_ms(gate.starts, gates.now_ms), 1)
    end
    if wait and wait > 0 and (gates.wait == 0 or wait < gates.wait) then
        gates.wait = wait
    end
    return not wait
end

local function gates_may(gates, kind, key)
    local may = gate_may(gates, gate_of(gates, '2', kind))
    may = gate_may(gates, gate_of(gates, '3', key)) and may
    if gates.all then
        may = gate_may(gates, gate_of(gates.all, '2', kind)) and may
        may = gate_may(gates, gate_of(gates.all, '3', key)) and may
    end
    return may
end

-- Those that limit such a task.
local function gates_find(gates, kind, key)
    local found = {}
    for _, from in ipairs({gates, gates.all}) do
        found[#found + 1] = gate_of(from, '2', kind) or nil
        found[#found + 1] = gate_of(from, '3', key) or nil
    end
    return found
end

-- One starts; is_late: it will not run.
local function gates_take(gates, kind, key, is_late)
    for _, gate in ipairs(gates_find(gates, kind, key)) do
        if gate.runs and not gate.running then
            gate_count(gate)
        end
        gate.running = gate.running and gate.running + (is_late and 0 or 1)
        if gate.starts then
            starts_take(gate.starts, 1)
        end
    end
end

-- One that was leased did not start after all.
local function gates_return(gates, kind, key, taken_at_ms)
    for _, gate in ipairs(gates_find(gates, kind, key)) do
        if gate.starts then
            starts_give_back(gate.starts, gates.now_ms, taken_at_ms)
        end
    end
end

-- Expects that Redis allows the write when memory is full.
local function gates_write(gates)
    for _, from in ipairs({gates, gates.all}) do
        for _, gate in pairs(from.known) do
            if gate and gate.starts and gate.starts.changed then
                starts_write(gate.starts, gates.now_ms)
            end
        end
    end
end
