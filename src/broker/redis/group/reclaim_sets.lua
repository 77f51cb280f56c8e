-- reclaim_sets.lua - gives back the members of sets whose lease is over or whose worker is dead.
--
-- KEYS: prefix of the queue. ARGV: how many members, at most 1000; the rank of the first set to be
-- looked at; then the ids of the workers that are known to be dead.
-- Reply: {how many were given back, the rank where the next call goes on; -1: at the end}.
--
-- A set that ends soon has its group listed in time: a Go server that gives it back would not.
-- The name of a set of ours is the id of its worker, a dot and hexadecimal digits; a worker without
-- a record is dead, too. Sets of Go are judged by their deadline only, and one with more members
-- than that is given back in parts. Sets with a key of the wrong type are left to doctor.
local Q = KEYS[1]
local SETS_MAX = 1000
local SOON_S = 30
-- include: lib_sets.lua
local left, from, dead = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
for i = 3, #ARGV do
    dead[ARGV[i]] = true
end
local now_s = tonumber(redis.call('TIME')[1])

local function worker_of(set)
    return string.match(set, ':([^:]+)%.%x+$')
end
local function is_dead(worker)
    return worker and (dead[worker] or
        redis.pcall('HEXISTS', Q .. 'quern:workers', worker) == 0)
end

local over, unlisted = {}, {}
local rows = redis.call('ZRANGE', Q .. 'aggregation_sets', from, from + SETS_MAX - 1, 'WITHSCORES')
for i = 1, #rows, 2 do
    local set, group, until_s = rows[i], group_of(rows[i]), tonumber(rows[i + 1])
    if group and can_give_back(set, group) then
        if until_s <= now_s or is_dead(worker_of(set)) then
            over[#over + 1] = {set, group}
        elseif until_s <= now_s + SOON_S and
            redis.call('SISMEMBER', Q .. 'groups', group) == 0 then
            unlisted[#unlisted + 1] = group
        end
    end
end
if over[1] or unlisted[1] then
    redis.call('ZREM', Q .. 'lease', '')
end
for _, group in ipairs(unlisted) do
    redis.call('SADD', Q .. 'groups', group)
end
local count, ended_count, is_full = 0, 0, false
for _, entry in ipairs(over) do
    is_full = is_full or count >= left
    if not is_full then
        local is_part = redis.call('ZCARD', entry[1]) > 1000
        local some, is_over = give_back(entry[1], entry[2], is_part and left - count or 1000)
        count, ended_count = count + some, ended_count + (is_over and 1 or 0)
        is_full = not is_over
    end
end
if is_full then
    return {count, from}
end
return {count, #rows < 2 * SETS_MAX and -1 or from + SETS_MAX - ended_count}
