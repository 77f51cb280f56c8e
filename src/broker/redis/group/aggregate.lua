-- aggregate.lua - makes a set of the oldest tasks of the first group whose turn it is.
--
-- KEYS: prefix of the queue. ARGV: 1 the name of the set, 2 the length of its lease in ms, 3 how
-- many bytes of messages it may have; then for each group its name, the number of tasks at which it
-- is its turn (0: none), the age in ms at which its oldest task makes it so (0: none), the grace
-- period in ms, and how many members a set may have.
-- Reply: {the place of the group of the set, from 1 (0: there is no set), ms until it is the turn
-- of the first of those before it ("": none has tasks), then for each member: id, message, second
-- in which it was added, "options;past"}.
--
-- The order of the decisions is asynq's. Ids without a task, or of one that is elsewhere, leave the
-- group, about GHOSTS_MAX in a call: it is still the turn of a group that had only such. With a
-- group's last member its name leaves the list if no set of the group is out (lib_sets.lua).
local Q = KEYS[1]
-- include: lib_sets.lua
local WORDS = 5
local GHOSTS_MAX = 1000
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local elsewhere = {active = true, pending = true, scheduled = true, retry = true, archived = true,
    completed = true}
local set_count = redis.call('ZCARD', Q .. 'aggregation_sets')
redis.call('SCARD', Q .. 'groups')

-- nil: it has no tasks.
local function wait_of(key, size_max, delay_ms, grace_ms)
    local size = redis.pcall('ZCARD', key)
    if type(size) ~= 'number' or size == 0 then
        return nil
    elseif size_max > 0 and size >= size_max then
        return 0
    end
    local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] * 1000
    local newest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] * 1000
    local wait_ms = newest + grace_ms - now_ms
    if delay_ms > 0 then
        wait_ms = math.min(wait_ms, oldest + delay_ms - now_ms)
    end
    return math.max(wait_ms, 0)
end

local function read_members(key, most)
    local set = {ids = {}, scores = {}, reply = {}, ghosts = {}}
    local ids, reply, left = set.ids, set.reply, tonumber(ARGV[3])
    local rows = redis.call('ZRANGE', key, 0, most - 1, 'WITHSCORES')
    for i = 1, #rows, 2 do
        local id, score = rows[i], rows[i + 1]
        local f = redis.pcall('HMGET', Q .. 't:' .. id, 'msg', 'state', 'quern_opts', 'quern_past')
        if f.err or not f[1] or elsewhere[f[2]] then
            set.ghosts[#set.ghosts + 1] = id
        elseif #ids > 0 and #f[1] > left then
            break
        else
            left = left - #f[1]
            ids[#ids + 1] = id
            set.scores[#set.scores + 1] = score
            set.scores[#set.scores + 1] = id
            local at = #reply
            reply[at + 1], reply[at + 2], reply[at + 3] = id, f[1], score
            reply[at + 4] = (f[3] or '') .. ';' .. (f[4] or '')
        end
    end
    return set
end

-- Reading ends with the first group that gives a set.
local looked, idle, next_ms, place, ghost_count = {}, {}, nil, 0, 0
for at = 4, #ARGV, WORDS do
    local key = Q .. 'g:' .. ARGV[at]
    local wait_ms = wait_of(key, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]),
        tonumber(ARGV[at + 3]))
    if wait_ms == 0 and ghost_count < GHOSTS_MAX then
        local set = read_members(key, tonumber(ARGV[at + 4]))
        set.key, set.group = key, ARGV[at]
        looked[#looked + 1] = set
        if set.ids[1] then
            place = (at - 4) / WORDS + 1
            break
        end
        ghost_count, next_ms = ghost_count + #set.ghosts, 0
    elseif wait_ms then
        next_ms = math.min(next_ms or wait_ms, wait_ms)
    elseif not wait_ms and set_count == 0 then
        idle[#idle + 1] = ARGV[at]
    end
end

if looked[1] or idle[1] then
    redis.call('ZREM', Q .. 'lease', '')
end
for _, set in ipairs(looked) do
    if set.ids[1] then
        local key = set.key .. ':' .. ARGV[1]
        redis.call('ZADD', key, unpack(set.scores))
        redis.call('ZREM', set.key, unpack(set.ids))
        redis.call('ZADD', Q .. 'aggregation_sets',
            string.format('%d', math.ceil((now_ms + ARGV[2]) / 1000)), key)
    end
    if set.ghosts[1] then
        redis.call('ZREM', set.key, unpack(set.ghosts))
    end
    if not set.ids[1] then
        unlist_group(set.group)
    end
end
for _, group in ipairs(idle) do
    unlist_group(group)
end
local reply = place > 0 and looked[#looked].reply or {}
table.insert(reply, 1, next_ms and string.format('%.0f', math.min(next_ms, 1e15)) or '')
table.insert(reply, 1, place)
return reply
