-- lib_lease_lanes.lua - the part of lease.lua for queues with lanes: limits by type or key, or
-- tasks with a limit_key. Expects lib_lanes.lua, lib_gates.lua, lib_lease_limits.lua and what
-- lease.lua has read; fills the table `lanes`.
--
-- First the head of pending is looked through: tasks that belong to a lane go there, a page after
-- the other. Then the keys take turns as in src/broker/sqlite/run/limits/lanes.c: a walk along
-- quern:lanes from the key behind the one that was served last, in quern:meta `turn`. What is left
-- in pending is the lane of tasks without key and limit. Charged tasks stay in pending, and solo
-- runs, probes and the index of charged tasks ask lanes.admits.
local SORT_MAX, DROP_MAX, NO_LANE = 512, 256, '\31'
lanes = {of = {}}
local gates_shared = nil -- those of all queues
for i = 1, queue_count do
    local limited = odd_queues[i] and odd_queues[i].limited
    if limited and limited ~= '1' and queues[i] ~= false then
        -- After this ZREM Redis allows the other writes when memory is full.
        local lease = try('ZREM', KEYS[i] .. 'lease', '')
        if limits.gates_of_all[i] then
            gates_shared = gates_shared or gates_of_all(now_ms, note_limits_of_all)
            -- bug ALL_COUNTED_APART: gates_shared = gates_of_all(now_ms, note_limits_of_all)
        end
        local own = type(lease) == 'number' and
            gates_open(KEYS[i], now_ms, limits.gates_of_all[i] and gates_shared or nil)
        if not own or type(try('ZCARD', KEYS[i] .. 'scheduled')) ~= 'number' then
            queues[i] = false
        else
            own.out, own.out_ids, own.taken, own.drops = {}, {}, {}, DROP_MAX
            own.places, own.sorted = {}, 0
            lanes.of[i] = own
        end
    end
end

-- --- Limits ---

function lanes.admits(i, message, opts)
    local own = lanes.of[i]
    return not own or gates_may(own, lane_type_of(message), lane_key_of(opts))
end

-- The lane of a task; nil: it has none.
local function lane_of(own, message, opts)
    local kind, key = lane_type_of(message), lane_key_of(opts)
    local has_lane = key ~= '' or gate_of(own, '2', kind) or
        own.all and gate_of(own.all, '2', kind)
    return has_lane and key .. '\31' .. kind or nil
end
function lanes.stops(i, message, opts)
    local own = lanes.of[i]
    return own and lane_of(own, message, opts)
end

-- This one is leased. One that is late is leased to be archived: it returns its start, and does not
-- run.
function lanes.take(i, id, message, opts, is_late)
    local own = lanes.of[i]
    if own then
        local kind, key = lane_type_of(message), lane_key_of(opts)
        gates_take(own, kind, key, is_late)
        own.taken[#own.taken + 1] = not is_late and {id, kind, key} or nil
    end
end

-- --- From pending into lanes ---

-- Of a task that belongs to a lane: its lane and place; nil: it stays. Then its level.
local function look_at(own, prefix, id)
    local f = try('HMGET', prefix .. 't:' .. id, 'msg', 'state', 'pending_since', 'quern_opts',
        'quern_past', 'quern_place', 'quern_aside')
    local message, state, opts = f[1], f[2], f[4]
    if not message or state and state ~= 'pending' and is_elsewhere(prefix, id, state) then
        return nil, false
    end
    local _, level, since = look_closer(opts, f[5], f[3])
    local name = not level and lane_of(own, message, opts)
    -- One that came back without having ended keeps its place.
    local place = name and f[6] and string.match(f[7] or '', '^%d+')
    if name and not place and lane_key_of(opts) ~= '' then
        place = lane_next_place(own.places, prefix, now_ms * 1000)
    elseif name and not place then
        place = math.max(lane_place(since, now_ms * 1000), own.sorted + 1)
        own.sorted = place
    end
    return name and {id = id, name = name, place = place}, level
end

-- Takes the movers out of a page of pending that begins behind `from` at its head.
local function leave_pending(key, from, movers)
    if from == 0 and movers[#movers].at == #movers then
        call('RPOP', key, #movers)
        return
    end
    for _, mover in ipairs(movers) do
        call('LSET', key, -mover.at, 'quern:gone')
    end
    call('LREM', key, -#movers, 'quern:gone')
end

-- Returns how many ids it read, how many of them moved, and whether it met charged tasks.
local function sort_page(own, prefix, from, size)
    local ids = try('LRANGE', prefix .. 'pending', -from - size, -from - 1)
    local movers, met_charged = {}, false
    for k = #ids, 1, -1 do
        local mover, level = look_at(own, prefix, ids[k])
        met_charged = met_charged or level
        if mover then
            mover.at = from + #ids - k + 1
            movers[#movers + 1] = mover
        end
    end
    if movers[1] then
        leave_pending(prefix .. 'pending', from, movers)
        for _, mover in ipairs(movers) do
            lane_put(prefix, mover.id, mover.name, mover.place, now_ms / 1000)
            try('HDEL', prefix .. 't:' .. mover.id, 'group') -- forward would put it there
        end
    end
    return #ids, #movers, met_charged
end

local function sort_head(own, prefix, queue)
    local from, size, sorted = queue.skip, 16, 0
    repeat
        local count, moved, met_charged = sort_page(own, prefix, from, size)
        local goes_on = count == size and (moved > 0 or met_charged)
        from, sorted, size = from + count - moved, sorted + count, 64
        queue.is_read = goes_on and moved > 0 and sorted >= SORT_MAX
    until not goes_on or sorted >= SORT_MAX
end

-- --- The walk ---

-- Adds the lanes between two bounds of ZRANGEBYLEX; own.enough: until these can fill `room`.
local function walk_part(own, low, high, wanted)
    local walk = own.walk
    while not own.enough do
        local names = try('ZRANGEBYLEX', own.Q .. 'quern:lanes', low, high, 'LIMIT', '0', '64')
        for k = 1, #names do
            local key, kind = string.match(names[k], '^([^\31]*)\31(.*)$')
            local is_new = not walk[1] or walk[#walk].key ~= key
            own.cut = #walk >= @QN_LIMIT_LANES_MAX@
            own.enough = own.cut or own.open_keys >= wanted and is_new
            if own.enough then
                return
            end
            walk[#walk + 1] = {name = names[k], key = key or '', kind = kind or '', read = 0,
                heads = {}}
            own.waiting = true
            if is_new and gates_may(own, kind or '', key or '') then
                own.open_keys = own.open_keys + 1
            end
        end
        if #names < 64 then
            return
        end
        low = '(' .. names[64]
    end
end

local function walk_all(own, prefix, wanted)
    local turn = try('HGET', prefix .. 'quern:meta', 'turn')
    local behind = '(' .. (type(turn) == 'string' and turn or '') .. ' '
    own.walk, own.at, own.open_keys = {}, 1, 0
    walk_part(own, behind, '+', wanted)
    if not own.enough then
        local size = try('LLEN', prefix .. 'pending')
        if type(size) == 'number' and size > 0 then
            own.walk[#own.walk + 1] = {name = NO_LANE, key = '', kind = '', is_pending = true}
            own.open_keys = own.open_keys + 1
        end
        walk_part(own, '-', behind, wanted)
    end
end

-- --- Turns ---

local function end_of_key(walk, first)
    local last = first
    while walk[last + 1] and walk[last + 1].key == walk[first].key do
        last = last + 1
    end
    return last
end

-- The first entry of a lane: id and place; nil: it has no more.
local function head_of(own, lane)
    if not lane.heads[1] and not lane.is_over then
        local size = lane.read == 0 and 1 or 15
        local rows = try('ZRANGE', own.Q .. 'quern:lane:' .. lane.name, lane.read,
            lane.read + size, 'WITHSCORES')
        for k = #rows, 1, -2 do
            lane.heads[#lane.heads + 1] = {id = rows[k - 1], place = tonumber(rows[k])}
        end
        lane.read, lane.is_over = lane.read + #rows / 2, not rows[1]
    end
    return lane.heads[#lane.heads]
end

-- The place of the first in pending.
local function place_in_pending(own, queue)
    local id = try('LINDEX', own.Q .. 'pending', -queue.read - queue.skip - 1)
    local f = type(id) == 'string' and try('HMGET', own.Q .. 't:' .. id, 'quern_opts', 'quern_past',
        'pending_since')
    if not f then
        return math.huge
    end
    local _, _, since = look_closer(f[1], f[2], f[3])
    return lane_place(since, 0)
end

-- The entry leaves its lane at the end of the lease.
local function leave_lane(own, lane)
    local id = table.remove(lane.heads).id
    own.out[lane.name] = own.out[lane.name] or {}
    table.insert(own.out[lane.name], id)
    return id
end

-- Adds the task of a lane to the runs; returns 1, for one that is late 0.
local function add_run(queue, own, id, f)
    local count, held_count = queue.count + 1, queue.held_count + 1
    local opts, past = f[4], f[5]
    local is_late, level, since = look_closer(opts, past, f[3])
    since = string.match(since or '', '^%d+$') or '0'
    queue.ids[count + 4], queue.names[count] = id, own.Q .. 't:' .. id
    queue.sinces[count], queue.seen[queue.names[count]] = since_text(since), true
    queue.held[held_count] = f[1]
    queue.odd = queue.odd or {}
    queue.odd[count] = {late = is_late, since = since, level = level, may_have_run = true,
        opts = opts}
    if opts or past then
        queue.held[held_count + 1] = is_late and 3 or 2
        queue.held[held_count + 2] = (opts or '') .. ';' .. (past or '')
        held_count = held_count + 2
    end
    queue.count, queue.held_count = count, held_count
    bytes_left = bytes_left - #f[1]
    own.out_ids[#own.out_ids + 1] = id
    late_left = late_left - (is_late and 1 or 0)
    return is_late and 0 or 1
end

local function is_still_aside(i, own, id)
    return not queues[i].seen[own.Q .. 't:' .. id] and call('ZSCORE', own.Q .. 'scheduled', id)
end

-- Takes the first task of a lane. Returns how many runs that fill a slot, and whether it took one;
-- an entry that is stale leaves the lane.
local function take_from(i, own, lane)
    local id = leave_lane(own, lane)
    local f = try('HMGET', own.Q .. 't:' .. id, 'msg', 'state', 'pending_since', 'quern_opts',
        'quern_past', 'quern_aside')
    local place, name = string.match(f[6] or '', '^(%d+) (.*)$')
    local waits = f[2] == 'scheduled' and name == lane.name and is_still_aside(i, own, id)
    -- bug LANE_BELIEVED: local waits = true
    if not f[1] or not waits then
        own.drops = own.drops - 1
        return 0, false
    end
    local kind = lane_type_of(f[1])
    if kind ~= lane.kind and not gates_may(own, kind, lane.key) then -- its data were replaced
        lane_put(own.Q, id, lane.key .. '\31' .. kind, place, now_ms / 1000)
        own.drops = own.drops - 1
        return 0, false
    end
    lanes.take(i, id, f[1], f[4], (look_closer(f[4], f[5], f[3])))
    return add_run(queues[i], own, id, f), true
end

-- --- The probe of a braked queue ---

-- The head of the first lane that may run, as lib_charged.lua knows tasks; it stays there.
function lanes.probe(i)
    local own = lanes.of[i]
    if own and not own.walk then
        walk_all(own, KEYS[i], 1)
    end
    for _, lane in ipairs(own and own.walk or {}) do
        local head = not lane.is_pending and gates_may(own, lane.kind, lane.key) and
            head_of(own, lane)
        while head and own.drops > 0 do
            local f = try('HMGET', own.Q .. 't:' .. head.id, 'msg', 'state', 'pending_since',
                'quern_opts', 'quern_past')
            if f[1] and f[2] == 'scheduled' and call('ZSCORE', own.Q .. 'scheduled', head.id) then
                return {id = head.id, message = f[1], state = f[2], since = f[3], opts = f[4],
                    past = f[5], lane = lane}
            end
            leave_lane(own, lane)
            own.drops = own.drops - 1
            head = head_of(own, lane)
        end
    end
    return nil
end

-- That one is leased.
function lanes.leave(i, lane)
    local own = lanes.of[i]
    own.out_ids[#own.out_ids + 1] = leave_lane(own, lane)
    own.last = lane.key
end

-- --- Taking turns ---

local function from_pending(i, lane, want)
    local queue = queues[i]
    local count = queue.count
    local found = read(i, want, true)
    lane.is_over, queue.empty = queue.empty, false
    return found, queue.count > count
end

-- The turn of the key whose lanes these are.
local function serve_key(i, own, first, last)
    local found, taken, tries = 0, false, true
    while tries and not taken and own.drops > 0 do
        local best, best_place = nil, math.huge
        for k = first, last do
            local lane = own.walk[k]
            local place = nil
            if lane.is_pending then
                place = not lane.is_over and (first == last and 0 or
                    place_in_pending(own, queues[i]))
            elseif gates_may(own, lane.kind, lane.key) then
                local head = head_of(own, lane)
                place = head and head.place
            end
            if place and (not best or place < best_place or
                place == best_place and best.is_pending) then
                best, best_place = lane, place
            end
        end
        tries = best ~= nil
        if best and best.is_pending then
            found, taken = from_pending(i, best, 1)
        elseif best then
            found, taken = take_from(i, own, best)
        end
    end
    if taken then
        own.last = own.walk[first].key
    end
    return found, taken
end

local function goes_on(own)
    return late_left > 0 and bytes_left > 0 and own.drops > 0
end
local function serve_all(i, own, want)
    local found, any, first_lane = 0, true, own.walk[1]
    if first_lane and first_lane.is_pending and not own.walk[2] then
        return (from_pending(i, first_lane, want)) -- no other key waits
    end
    while any and found < want and goes_on(own) do
        any = own.at > 1 -- the rest of a round proves nothing
        while own.at <= #own.walk and found < want and goes_on(own) do
            local first = own.at
            own.at = end_of_key(own.walk, first) + 1
            local more, taken = serve_key(i, own, first, own.at - 1)
            found, any = found + more, any or taken
        end
        own.at = own.at <= #own.walk and own.at or 1
    end
    return found
end

-- Leases up to `want` tasks; returns how many.
function lanes.pick(i, want)
    local own, queue = lanes.of[i], queues[i]
    if queue == nil then
        queue = begin(i, KEYS[i])
        queues[i] = queue
    end
    if not queue or queue.empty or want <= 0 then
        return 0
    end
    if not own.walk then
        sort_head(own, KEYS[i], queue)
        walk_all(own, KEYS[i], want)
    end
    local is_sorting = queue.is_read
    local found = serve_all(i, own, want)
    queue.empty = found < want
    if queue.empty and own.cut then
        own.last = own.walk[#own.walk].key
        own.wait = @QN_LIMIT_LOOK_MS@
    elseif queue.empty and (own.drops <= 0 or own.enough and own.drops < DROP_MAX) then
        is_sorting = true
    end
    queue.is_read = is_sorting or queue.is_read
    return found
end

-- --- Writing ---

function lanes.close(i, queue)
    local own, prefix = lanes.of[i], KEYS[i]
    if not own then
        return
    end
    for name, ids in pairs(own.out) do
        local key = prefix .. 'quern:lane:' .. name
        try('ZREM', key, unpack(ids))
        if try('EXISTS', key) == 0 then
            try('ZREM', prefix .. 'quern:lanes', name)
        end
    end
    if own.out_ids[1] then
        call('ZREM', prefix .. 'scheduled', unpack(own.out_ids))
    end
    if own.places.last then
        lanes_note(prefix, own.places)
    end
    if own.last then
        call('HSET', prefix .. 'quern:meta', 'turn', own.last)
        -- bug TURN_NOT_PASSED_ON: call('EXISTS', prefix)
    end
    if own.taken[1] and (own.queues or own.all and own.all.queues or
        try('EXISTS', prefix .. 'quern:limit:runs') == 1) then
        for _, run in ipairs(own.taken) do
            hold_add(prefix, run[1], run[2], run[3])
        end
    end
    gates_write(own)
    -- Nothing may run: idle workers sleep until this ends, or something deletes it.
    if own.walk and own.waiting and queue.count == 0 and not queue.is_read then
        -- A start that another queue returns to the limit of all is no news of this one.
        local wait = own.wait > 0 and own.wait or @QN_LIMIT_IDLE_MS@
        wait = own.all and math.min(wait, @QN_LIMIT_IDLE_MS@) or wait
        try('SET', prefix .. 'quern:lanes:idle', '1', 'PX', string.format('%.0f', wait))
    elseif own.walk and not own.waiting and odd_queues[i].limited == '2' and
        try('EXISTS', prefix .. 'quern:limit:set', prefix .. 'quern:lanes') == 0 then
        call('HDEL', prefix .. 'quern:meta', 'limits')
    end
end

-- In how many ms a task of a lane may start; 0: none waits for that.
function lanes.wait_ms(i)
    local own = lanes.of[i]
    return own and own.waiting and own.wait or 0
end
