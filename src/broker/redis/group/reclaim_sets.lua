-- reclaim_sets.lua - gives back the members of sets whose lease is over or whose worker is dead.
--
-- KEYS: prefix of the queue. ARGV: how many members, at most 1000; then the ids of the workers that
-- are known to be dead.
-- Reply: how many were given back, all there is to give back if that is less than asked for.
--
-- The name of a set of ours is the id of its worker, a dot and hexadecimal digits; a worker without
-- a record is dead, too. Sets of Go are judged by their deadline only, and one with more members
-- than that is given back in parts. Sets with a key of the wrong type are left to doctor.
local Q = KEYS[1]
local SETS_MAX = 1000
-- include: lib_sets.lua
local left, dead = tonumber(ARGV[1]), {}
for i = 2, #ARGV do
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

local over = {}
local rows = redis.call('ZRANGE', Q .. 'aggregation_sets', 0, SETS_MAX - 1, 'WITHSCORES')
for i = 1, #rows, 2 do
    local set, group = rows[i], group_of(rows[i])
    if group and (tonumber(rows[i + 1]) <= now_s or is_dead(worker_of(set))) and
        can_give_back(set, group) then
        over[#over + 1] = {set, group}
    end
end
if not over[1] then
    return 0
end
redis.call('ZREM', Q .. 'lease', '')
local count = 0
for _, entry in ipairs(over) do
    local size = redis.call('ZCARD', entry[1])
    local is_part = size > 1000
    local some = count < left and give_back(entry[1], entry[2], is_part and left - count or 1000)
    count = count + (some or 0)
end
return count
