-- lib_aside.lua - whether a task waits aside, and whether a lease finds it there. For scripts that
-- compare the lanes with the tasks; see lib_lanes.lua.

-- aside: its field quern_aside.
local function aside_lane(state, aside)
    return state == 'scheduled' and string.match(aside or '', '^%d+ (.*)$') or nil
end

-- Whether a lease still finds this task in its lane.
local function is_in_lane(Q, id, state, aside)
    local name = aside_lane(state, aside)
    return name and type(redis.pcall('ZSCORE', Q .. 'quern:lanes', name)) == 'string' and
        type(redis.pcall('ZSCORE', Q .. 'quern:lane:' .. name, id)) == 'string'
end

-- It waits no longer. A lane of the wrong type is left to those who put tasks there.
local function aside_leave(Q, id, name)
    redis.pcall('ZREM', Q .. 'quern:lane:' .. name, id)
    if redis.call('EXISTS', Q .. 'quern:lane:' .. name) == 0 then
        redis.pcall('ZREM', Q .. 'quern:lanes', name)
    end
end
