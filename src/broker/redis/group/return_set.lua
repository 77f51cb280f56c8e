-- return_set.lua - gives the members of a set back to their group, at their old places.
--
-- KEYS: prefix of the queue. ARGV: key of the set, its group. Reply: 1 given back, 0 the lease is
-- lost, -1 a key has the wrong type and nothing was changed.
local Q = KEYS[1]
-- include: lib_sets.lua
local set, group = ARGV[1], ARGV[2]
if not redis.call('ZSCORE', Q .. 'aggregation_sets', set) then
    return 0
elseif not can_give_back(set, group) then
    return -1
end
redis.call('ZREM', Q .. 'lease', '')
give_back(set, group, 1000)
return 1
