-- lib_lanes.lua - tasks that wait aside, in lanes: those with a limit_key, whose keys take turns,
-- and those of a type with a limit. Included by scripts that put tasks there.
--
-- A lane is a key and a type, with a byte 31 between them: quern:lane:<lane> has its tasks by
-- place, quern:lanes the lanes that have any. Such a task is `scheduled` for Go, so far ahead that
-- only forward.lua gets it, which puts it further ahead; quern_aside in its hash is its place, a
-- space and its lane. When no program of quern is there any more, it becomes pending by Go's
-- forwarder. The lanes are an index: an entry counts only while the task is `scheduled`, in its
-- hash and in the zset.
local LANE_AHEAD_S = @QN_LIMIT_ASIDE_S@

-- The type in a message; '': none by which a limit could count it.
local function lane_type_of(message)
    local tag, size, more = string.byte(message, 1, 3)
    local first = 3
    if size and size >= 128 then
        size, first = size - 128 + 128 * (more or 0), 4
    end
    if tag ~= @QN_ASYNQ_TAG_TYPE@ or not size or size > @QN_NAME_SIZE_MAX@ then
        return ''
    end
    local kind = string.sub(message, first, first + size - 1)
    return string.find(kind, '\31', 1, true) and '' or kind
end

-- The limit_key in quern_opts; '': none.
local function lane_key_of(opts)
    local key = opts and string.match(opts, ' k([^ ]+)$')
    if not key then
        return ''
    end
    return (string.gsub(key, '[\29\30]', {['\29'] = ';', ['\30'] = ' '}))
end

-- An index of the wrong type is replaced by a new one.
local function lane_add(key, score, member)
    local added = redis.pcall('ZADD', key, score, member)
    if type(added) ~= 'number' then
        redis.call('DEL', key)
        redis.call('ZADD', key, score, member)
    end
end

-- Puts a task that could run into its lane; the caller has read `scheduled`, and taken the task
-- from where it was. place: its order, in microseconds.
local function lane_put(Q, id, name, place, now_s)
    local text = string.format('%.0f', place)
    redis.call('HSET', Q .. 't:' .. id, 'state', 'scheduled', 'quern_aside', text .. ' ' .. name)
    redis.call('ZADD', Q .. 'scheduled', string.format('%.0f', now_s + LANE_AHEAD_S), id)
    lane_add(Q .. 'quern:lane:' .. name, text, id)
    lane_add(Q .. 'quern:lanes', 0, name)
end

-- The place of a pending task: since when it waits, in microseconds; tasks of one enqueue differ
-- by nanoseconds, which a double cannot hold.
local function lane_place(since, now_us)
    local micros, rest = string.match(since or '', '^(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(%d%d%d)$')
    return micros and micros + rest or now_us
end

-- The places of tasks with a limit_key grow also if the clock is turned back: the last one is in
-- quern:meta. Returns the next.
local function lane_next_place(places, Q, now_us)
    if not places.last then
        local last = redis.pcall('HGET', Q .. 'quern:meta', 'lane_place')
        last = tonumber(type(last) == 'string' and string.match(last, '^%d+$') or 0)
        places.last = math.max(now_us, last < 9e15 and last or 0)
    end
    places.last = places.last + 1
    return places.last
end

-- After tasks were put into lanes because of their keys: leases look there, and sleeping workers
-- are woken.
local function lanes_note(Q, places)
    redis.call('HSET', Q .. 'quern:meta', 'limits', '3', 'lane_place',
        string.format('%.0f', places.last))
    redis.call('DEL', Q .. 'quern:lanes:idle')
end
