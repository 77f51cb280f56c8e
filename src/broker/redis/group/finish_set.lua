-- finish_set.lua - stores what was made of a set, and removes its members.
--
-- KEYS: prefix of the queue. ARGV: 1 session, 2 sequence, 3 key of the set, 4 how many locks
-- follow, then id and lock of each member that may hold one, then, if there is a task, its id, its
-- message and its row as enqueue.lua has it.
-- Reply: "o" done, "s" the lease is lost, "d" the task's lock is held, "c" its id exists, "f" the
-- queue is full; after these four nothing was changed.
--
-- The set's key is its token: a set never gets the key of an earlier one, and a set that anybody
-- has given back is not in aggregation_sets any more. asynq removes the members in a step of its
-- own after it has stored the task, and leaves their locks.
-- include: lib_session.lua
-- include: lib_leftovers.lua
-- include: limits/lib_lanes.lua
-- include: lib_store.lua
local Q = KEYS[1]
-- include: lib_lock.lua
-- include: lib_sets.lua
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':g'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local sets, set, lock_count = Q .. 'aggregation_sets', ARGV[3], tonumber(ARGV[4])
local held = redis.call('ZSCORE', sets, set)
-- bug SET_UNFENCED: local held = true
if not held then
    return 's'
end
local keys, freed = {}, {}
for i, id in ipairs(redis.call('ZRANGE', set, 0, -1)) do
    keys[i] = Q .. 't:' .. id
    freed[keys[i]] = true
end
for i = 5, 4 + 2 * lock_count, 2 do
    local id, lock = ARGV[i], ARGV[i + 1]
    if freed[Q .. 't:' .. id] and owns_lock(id, lock) then
        keys[#keys + 1] = lock
        freed[lock] = true
    end
end
local time = redis.call('TIME')
local ids = 4 + 2 * lock_count
local names = ARGV[ids + 1] and {Q .. 't:' .. ARGV[ids + 1]} or {}
local batch = {Q = Q, names = names, ids = ids, messages = ids + 1, rows = ids + 3, results = {},
    now_s = time[1], now_us = string.format('%06d', time[2]), freed = freed}
store_read(batch)
if batch.results[1] then
    return batch.results[1]
end

redis.call('ZREM', Q .. 'lease', '')
for first = 1, #keys, 1000 do
    redis.call('DEL', unpack(keys, first, math.min(first + 999, #keys)))
end
redis.call('DEL', set)
redis.call('ZREM', sets, set)
unlist_group(group_of(set))
store_write(batch)
-- bug SET_WITHOUT_TASK: batch = nil
session_keep(session_key, ARGV[2], 'o')
return 'o'
