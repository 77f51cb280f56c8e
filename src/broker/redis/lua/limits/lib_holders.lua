-- lib_holders.lua - who runs, for the limits by type and key of tasks that run.
--
-- quern:limit:runs is a zset without scores, so that each count is one command: for each run '2',
-- its type, a byte 31 and its id, the same with '3' and its key, and 'i', its id, type and key.
-- It has all runs while its member '\0' has the score -1; before, that is the cursor up to which
-- `lease` was read to make it. What is left of runs that Go ended is dropped when it is in the way.
local function hold_range(head)
    return '[' .. head .. '\31', '(' .. head .. '\32'
end

local function hold_count(Q, scope, name)
    local count = redis.pcall('ZLEXCOUNT', Q .. 'quern:limit:runs', hold_range(scope .. name))
    return type(count) == 'number' and count or 0
end

local function hold_add(Q, id, kind, key)
    local members = {0, 'i' .. id .. '\31' .. kind .. '\31' .. key}
    if kind ~= '' then
        members[#members + 1] = 0
        members[#members + 1] = '2' .. kind .. '\31' .. id
    end
    if key ~= '' then
        members[#members + 1] = 0
        members[#members + 1] = '3' .. key .. '\31' .. id
    end
    redis.pcall('ZADD', Q .. 'quern:limit:runs', unpack(members))
end

-- These run no more.
local function hold_free(Q, ids)
    for _, id in ipairs(ids) do
        local found = redis.pcall('ZRANGEBYLEX', Q .. 'quern:limit:runs', hold_range('i' .. id))
        for _, member in ipairs(found) do
            local rest = string.sub(member, #id + 2)
            local kind, key = string.match(rest, '^\31([^\31]*)\31([^\31]*)$')
            if kind then
                redis.pcall('ZREM', Q .. 'quern:limit:runs', member, '2' .. kind .. '\31' .. id,
                    '3' .. key .. '\31' .. id)
            end
        end
    end
end
