-- lib_limit_of_all.lua - the part of lease.lua by which queues that are made later get the limit of
-- all queues: set_limit.lua notes it in each that there is when it is set. Expects what lease.lua
-- has read.

-- Notes it in a queue before that gives its first run. Returns whether it was noted now.
local function note_limit_of_all(prefix)
    local text = try('HGET', sub(prefix, 1, 6) .. 'quern:limit:set', '4')
    if type(text) ~= 'string' or try('HEXISTS', prefix .. 'quern:limit:set', '4') ~= 0 then
        return nil
    end
    try('ZREM', prefix .. 'lease', '') -- for the other writes when memory is full
    try('HSET', prefix .. 'quern:limit:set', '4', text)
    try('HSET', prefix .. 'quern:meta', 'sema', text)
    try('HSETNX', prefix .. 'quern:meta', 'limits', '1')
    return true
    -- bug NEW_QUEUE_UNBOUND: return nil
end
