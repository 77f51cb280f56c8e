-- lib_sets.lua - giving members of a set back to their group. Expects Q, the prefix of the queue.

-- The group of a set, by its key; nil: that is no key of a set of this queue.
local function group_of(set)
    return string.sub(set, 1, #Q + 2) == Q .. 'g:' and
        string.match(string.sub(set, #Q + 3), '^(.+):[^:]*$')
end

-- Whether members can be moved: all keys have their types.
local function can_give_back(set, group)
    return type(redis.pcall('ZCARD', set)) == 'number' and
        type(redis.pcall('ZCARD', Q .. 'g:' .. group)) == 'number' and
        type(redis.pcall('SCARD', Q .. 'groups')) == 'number'
end

-- Gives back up to `most` members, at most 1000, with their scores, which are their places. The set
-- ends with the last. Returns how many they were. asynq does not list the group again.
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
    if redis.call('EXISTS', set) == 0 then
        redis.call('ZREM', Q .. 'aggregation_sets', set)
    end
    return count
end
