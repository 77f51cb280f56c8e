-- set_aside.lua - archives members of a set that cannot be used, in a form that Go can read.
--
-- KEYS: prefix of the queue. ARGV: key of the set, then id and message of each. Reply: for each
-- '1', or '0' when the lease of the set is lost or its key is no hash any more.
local Q = KEYS[1]
-- include: lib_sets.lua
local set = ARGV[1]
local now_s = redis.call('TIME')[1]
redis.call('ZCARD', Q .. 'archived')
local held, reply = redis.call('ZSCORE', Q .. 'aggregation_sets', set), {}
redis.call('ZREM', Q .. 'lease', '')
for i = 2, #ARGV, 2 do
    local key = Q .. 't:' .. ARGV[i]
    local is_member = held and redis.call('ZREM', set, ARGV[i]) == 1 and
        type(redis.pcall('HSTRLEN', key, 'msg')) == 'number'
    if is_member then
        redis.call('HSET', key, 'msg', ARGV[i + 1], 'state', 'archived')
        redis.call('ZADD', Q .. 'archived', now_s, ARGV[i])
    end
    reply[#reply + 1] = is_member and '1' or '0'
end
if held and redis.call('EXISTS', set) == 0 then
    redis.call('ZREM', Q .. 'aggregation_sets', set)
    unlist_group(group_of(set))
end
return table.concat(reply)
