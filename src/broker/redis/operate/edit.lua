-- edit.lua - one task is edited by hand, if it is still as it was read.
--
-- KEYS: prefix of the queue. ARGV: id; message, state, options (quern_opts, or "") and moment in ms
-- ("": it has none) as they were read; message, options ("": as they are) and moment ("": as it is)
-- as they will be. Reply: "done", "missing", "changed", or "set" (inside an aggregation set).
--
-- The lock of a unique task stays that of the payload with which it was enqueued.
local Q = KEYS[1]
-- include: lib_lock.lua
-- include: lib_renew.lua
-- include: lib_due.lua
local id, key = ARGV[1], Q .. 't:' .. ARGV[1]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = redis.call('HMGET', key, 'msg', 'state', 'quern_opts', 'group', 'unique_key')
local state, at_ms = fields[2], tonumber(ARGV[8])

-- Whether its moment is the one that was read.
local function has_moment(moment)
    local score = tonumber(redis.call('ZSCORE', Q .. state, id) or '')
    return score and string.format('%.0f', due_moment_ms(Q, id, score)) == moment
end

if not fields[1] then
    return 'missing'
elseif fields[1] ~= ARGV[2] or state ~= ARGV[3] or (fields[3] or '') ~= ARGV[4] then
-- bug EDIT_UNCOMPARED: elseif false then
    return 'changed'
elseif state == 'aggregating' and
    not redis.call('ZSCORE', Q .. 'g:' .. (fields[4] or ''), id) then
    return 'set'
elseif ARGV[5] ~= '' and not has_moment(ARGV[5]) then
    return 'changed'
end

-- Redis returns OOM for the first write that takes memory; after this one it no longer does.
redis.call('ZREM', Q .. 'lease', '')
redis.call('HSET', key, 'msg', ARGV[6])
local options = ARGV[7] ~= '' and ARGV[7] or fields[3]
if ARGV[7] ~= '' then
    redis.call('HSET', key, 'quern_opts', options)
end
if at_ms then
    redis.call('ZADD', Q .. state, string.format('%.0f', math.ceil(at_ms / 1000)), id)
    if at_ms % 1000 == 0 then
        redis.call('ZREM', Q .. 'quern:due', id)
    else
        redis.call('ZADD', Q .. 'quern:due', string.format('%.0f', at_ms), id)
    end
    lock_renew(id, fields[5], lock_fate(id, fields[5], options, 'scheduled',
        math.max(at_ms - now_ms, 0)))
end
return 'done'
