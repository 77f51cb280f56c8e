-- lib_renew.lua - the lock of a unique task that goes on: it holds while the task lives. Expects Q.

-- Who holds a lock after what a script has planned but not written: an id; false: no task.
local lock_holders = {}

-- As SET accepts it, whatever the stored terms are.
local function lock_ms(ms)
    return math.max(math.min(ms, 1e15), 1)
end

-- What becomes of the lock when the task comes to this state, due in wait_ms: 'free', 'keep'
-- (without end), for how many ms it holds from now on, or nil: it stays as it is. A lock that has
-- ended is taken again if it is free. The options of a task that Go stored do not have the time of
-- its lock: it is longer by the delay of a retry.
local function lock_fate(id, lock, options, state, wait_ms)
    if not lock or string.sub(lock, 1, #Q + 7) ~= Q .. 'unique:' then
        return nil
    end
    local ends, span = string.match(options or '', ' u(%d):(%d+)')
    local holder, left = lock_holders[lock], -2
    if holder == nil then
        holder, left = redis.pcall('GET', lock), redis.call('PTTL', lock)
    end
    if not ends then
        return state == 'retry' and holder == id and left > 0 and
            lock_ms(left + wait_ms) or nil
    elseif ends == '1' or ends == '4' or holder and holder ~= id then
        return nil
    end
    span = lock_ms(tonumber(span))
    if state ~= 'archived' then
        return left ~= -1 and wait_ms + span > left and lock_ms(wait_ms + span) or nil
        -- bug LOCK_NOT_RENEWED: return nil
    elseif ends == '3' then
        return holder and 'free' or nil
    elseif ends == '2' then
        return 'keep'
    end
    return holder and left > span and span or nil
end

local function lock_renew(id, lock, fate)
    if fate == 'free' then
        redis.call('DEL', lock)
    elseif fate == 'keep' then
        redis.call('SET', lock, id)
    elseif fate then
        redis.call('SET', lock, id, 'PX', string.format('%.0f', fate))
    end
end
