-- lib_trash.lua - the trash of a queue: the hashes of deleted tasks under another name, until their
-- day is over, and the list of them.
--
-- The field quern_trash of such a hash is "until_ms size score due_ms lock_until_ms state lock":
-- what the places of the task had of it; lock_until_ms: 0: it held no lock, state: where it comes
-- back. The list has "size id", so that the bytes are right also where Redis has removed a hash
-- whose time was over; the score is until_ms, with decimals for the order of those that one script
-- has deleted.

local function trash_key(Q, id)
    return Q .. 'quern:trash:' .. id
end

-- Of a deleted task; nil: there is none.
local function trash_entry(Q, id)
    local text = redis.pcall('HGET', trash_key(Q, id), 'quern_trash')
    if type(text) ~= 'string' then
        return nil
    end
    local until_ms, size, score, due_ms, lock_until_ms, state, lock =
        string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%l+) ?(.*)$')
    return until_ms and {until_ms = tonumber(until_ms), size = size, score = score,
        due_ms = due_ms, lock_until_ms = tonumber(lock_until_ms), state = state, lock = lock}
end

local function trash_count_bytes(Q, by)
    if redis.call('EXISTS', Q .. 'quern:trash') == 0 then
        redis.call('DEL', Q .. 'quern:trash_bytes')
    else
        redis.pcall('INCRBY', Q .. 'quern:trash_bytes', string.format('%.0f', by))
    end
end

-- Takes it off the list.
local function trash_unlist(Q, id, size)
    if redis.call('ZREM', Q .. 'quern:trash', size .. ' ' .. id) == 1 then
        trash_count_bytes(Q, -tonumber(size))
    end
end

-- Removes those whose day is over, up to a limit; a list of the wrong type is none.
local function trash_expire(Q, now_ms, limit)
    local members = redis.pcall('ZRANGEBYSCORE', Q .. 'quern:trash', '-inf',
        string.format('%.0f', now_ms), 'LIMIT', 0, limit)
    local bytes = 0
    for _, member in ipairs(members) do
        local size, id = string.match(member, '^(%d+) (.*)$')
        bytes = bytes + (tonumber(size) or 0)
        redis.call('ZREM', Q .. 'quern:trash', member)
        if id then
            redis.call('UNLINK', trash_key(Q, id))
        end
    end
    if #members > 0 then
        trash_count_bytes(Q, -bytes)
    end
    return #members
end

-- How many tasks and bytes there are.
local function trash_use(Q)
    local bytes = redis.pcall('GET', Q .. 'quern:trash_bytes')
    return redis.call('ZCARD', Q .. 'quern:trash'),
        type(bytes) == 'string' and tonumber(bytes) or 0
end
