-- lib_sets.lua - the names of groups, and giving members of a set back to their group. Expects Q,
-- the prefix of the queue.
--
-- A name stays in `groups` while the group has tasks, or a set of ours has: a Go server that gives
-- the set back does not list the name, and would never look at the group again.

-- The group of a set, by its key; nil: that is no key of a set of this queue.
local function group_of(set)
    return string.sub(set, 1, #Q + 2) == Q .. 'g:' and
        string.match(string.sub(set, #Q + 3), '^(.+):[^:]*$')
end

-- Whether the group may be unlisted: it has no tasks, and no set. Where there are very many sets,
-- it stays.
local function group_is_over(group)
    if redis.call('EXISTS', Q .. 'g:' .. group) == 1 then
        return false
    end
    local sets = redis.call('ZRANGE', Q .. 'aggregation_sets', 0, 999)
    -- bug GROUP_UNLISTED: local sets = {}
    for _, set in ipairs(sets) do
        if group_of(set) == group then
            return false
        end
    end
    return #sets < 1000
end

-- A list of the wrong type is left to doctor.
local function unlist_group(group)
    if group and group_is_over(group) then
        redis.pcall('SREM', Q .. 'groups', group)
    end
end

-- Whether members can be moved: all keys have their types.
local function can_give_back(set, group)
    return type(redis.pcall('ZCARD', set)) == 'number' and
        type(redis.pcall('ZCARD', Q .. 'g:' .. group)) == 'number' and
        type(redis.pcall('SCARD', Q .. 'groups')) == 'number'
end

-- Gives back up to `most` members, at most 1000, with their scores, which are their places. The set
-- ends with the last. Returns how many they were, and whether it has ended.
local function give_back(set, group, most)
    local rows = redis.call('ZRANGE', set, 0, most - 1, 'WITHSCORES')
    local count = #rows / 2
    if count > 0 then
        local scores = {}
        for i = 1, #rows, 2 do
            scores[i], scores[i + 1] = rows[i + 1], rows[i]
        end
        redis.call('ZADD', Q .. 'g:' .. group, unpack(scores))
        redis.call('ZREMRANGEBYRANK', set, 0, count - 1)
        redis.call('SADD', Q .. 'groups', group)
        -- bug GROUP_NAME_LOST: scores = nil
    end
    local is_over = redis.call('EXISTS', set) == 0
    if is_over then
        redis.call('ZREM', Q .. 'aggregation_sets', set)
        unlist_group(group)
    end
    return count, is_over
end
