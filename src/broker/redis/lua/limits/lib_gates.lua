-- lib_gates.lua - the limits of the types and keys of a queue: whether a task of them may start.
-- Expects lib_limits.lua, lib_lanes.lua and lib_holders.lua.
--
-- In quern:limit:set '2r:<type>' and '3r:<key>' limit the tasks that run, '2s:' and '3s:' those
-- that start; the name '*' is each that has none of its own. quern:limit:use:2:<type> and
-- quern:limit:use:3:<key> are what is used of starts.

-- wait: in how many ms a start may be possible again, 0: no task waits for that.
local function gates_open(Q, now_ms)
    return {Q = Q, now_ms = now_ms, all = {}, wait = 0, checks = 64}
end

-- Whether all runs of the queue are counted; if not, some more of them are.
local function gates_counted(gates)
    local Q, key = gates.Q, gates.Q .. 'quern:limit:runs'
    local cursor = redis.pcall('ZSCORE', key, '\0')
    if type(cursor) == 'table' then
        redis.call('DEL', key)
        cursor = false
    end
    if cursor ~= '-1' and not string.match(cursor or '', '^%d+$') then
        cursor = '0'
    end
    for _ = 1, cursor == '-1' and 0 or 4 do
        local page = redis.call('ZSCAN', Q .. 'lease', cursor, 'COUNT', 256)
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

-- scope: '2' of types, '3' of keys. false: it has no limit.
local function gate_of(gates, scope, name)
    local gate = name ~= '' and gates.all[scope .. name]
    if gate ~= nil then
        return gate
    end
    local Q = gates.Q
    local f = redis.pcall('HMGET', Q .. 'quern:limit:set', scope .. 'r:' .. name, scope .. 's:' ..
        name, scope .. 'r:*', scope .. 's:*')
    local runs = string.match(f[1] or f[3] or '', '^%d+$')
    local starts = starts_read(f[2] or f[4], gates.now_ms,
        Q .. 'quern:limit:use:' .. scope .. ':' .. name)
    gate = (runs or starts) and {scope = scope, name = name, starts = starts,
        runs = runs and whole(runs, 0, @QN_LIMIT_COUNT_MAX@)} or false
    if runs and gates.counted == nil then
        gates.counted = gates_counted(gates)
    end
    if runs then
        gate.running = hold_count(Q, scope, name)
    end
    gates.all[scope .. name] = gate
    return gate
end

-- Drops what no longer runs, of some that hold this gate: Go may have ended them.
local function gate_check(gates, gate)
    local Q, low, high = gates.Q, hold_range(gate.scope .. gate.name)
    local first = gate.running > 8 and gates.now_ms % (gate.running - 7) or 0
    local held = redis.pcall('ZRANGEBYLEX', Q .. 'quern:limit:runs', low, high, 'LIMIT',
        string.format('%d', first), '8')
    for _, member in ipairs(held) do
        local id = string.sub(member, #gate.name + 3)
        gates.checks = gates.checks - 1
        if not redis.call('ZSCORE', Q .. 'lease', id) then
            -- bug ENDED_RUN_HOLDS: if false then
            hold_free(Q, {id})
            gate.running = gate.running - 1
        end
    end
end

local function gate_may(gates, gate)
    if not gate then
        return true
    end
    local runs = gate.runs
    -- bug LANE_LIMIT_OFF_BY_ONE: local runs = gate.runs and gate.runs + 1
    if runs and gates.counted and gate.running >= runs and gate.running > 0 and
        gates.checks > 0 then
        gate_check(gates, gate)
    end
    local wait = nil
    if runs and not gates.counted then
        wait = @QN_LIMIT_LOOK_MS@
    elseif runs and gate.running >= runs then
        wait = 0
    elseif gate.starts and starts_room(gate.starts) <= 0 then
        wait = math.max(starts_wait_ms(gate.starts, gates.now_ms), 1)
    end
    if wait and wait > 0 and (gates.wait == 0 or wait < gates.wait) then
        gates.wait = wait
    end
    return not wait
end

local function gates_may(gates, kind, key)
    local by_type = gate_may(gates, gate_of(gates, '2', kind))
    return gate_may(gates, gate_of(gates, '3', key)) and by_type
end

-- One starts; is_late: it will not run.
local function gates_take(gates, kind, key, is_late)
    for _, gate in ipairs({gate_of(gates, '2', kind) or {}, gate_of(gates, '3', key) or {}}) do
        gate.running = gate.running and gate.running + (is_late and 0 or 1)
        if gate.starts then
            starts_take(gate.starts, 1)
        end
    end
end

-- One that was leased did not start after all.
local function gates_return(gates, kind, key, taken_at_ms)
    for _, gate in ipairs({gate_of(gates, '2', kind) or {}, gate_of(gates, '3', key) or {}}) do
        if gate.starts then
            starts_give_back(gate.starts, gates.now_ms, taken_at_ms)
        end
    end
end

-- Expects that Redis allows the write when memory is full.
local function gates_write(gates)
    for _, gate in pairs(gates.all) do
        if gate and gate.starts and gate.starts.changed then
            starts_write(gate.starts, gates.now_ms)
        end
    end
end
