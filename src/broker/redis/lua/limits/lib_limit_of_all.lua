-- lib_limit_of_all.lua - the part of lease.lua by which queues that are made later get the limits
-- of all queues: set_limit.lua notes them in each that there is when one is set. Expects what
-- lease.lua has read.

-- Notes them in a queue before that gives its first run, or when another one finds that it does
-- not count its runs for them. Returns `limits` in its quern:meta; nil: nothing was noted.
local function note_limits_of_all(prefix)
    local all = try('HMGET', sub(prefix, 1, 6) .. 'quern:limit:set', '4', '0')
    local semaphore, marks = all[1], all[2]
    if not semaphore and not marks then
        return nil
    end
    local own = try('HMGET', prefix .. 'quern:limit:set', '4', '0')
    if own.err or (own[1] or not semaphore) and own[2] == marks then
        return nil
    end
    local old = try('HGET', prefix .. 'quern:meta', 'limits')
    local new = old == '3' and '3' or marks and string.find(marks, 't', 1, true) and '2' or
        type(old) == 'string' and old or '1'
    try('ZREM', prefix .. 'lease', '') -- for the other writes when memory is full
    if semaphore and not own[1] then
        try('HSET', prefix .. 'quern:limit:set', '4', semaphore)
        try('HSET', prefix .. 'quern:meta', 'sema', semaphore)
    end
    if marks then
        try('HSET', prefix .. 'quern:limit:set', '0', marks)
    else
        try('HDEL', prefix .. 'quern:limit:set', '0')
    end
    try('HSET', prefix .. 'quern:meta', 'limits', new)
    return new
    -- bug NEW_QUEUE_UNBOUND: return nil
end
