-- lib_tokens.lua - the tokens of semaphores, which handlers of Go take and return, too (asynq's
-- x/rate). Each is set for any number of queues, whose runs hold a token of it each.
--
-- asynq:sema:<name> is a zset of those who hold a token; the score is the second until which. A
-- token that is older by a second or more is void, and is dropped by the next one who takes a
-- token. The members of Go are ids of tasks; ours are keys of tasks, as two queues may have the
-- same id. Field 4 of quern:limit:set has the semaphores of a queue, "count name", joined by bytes
-- 31. `sema` in quern:meta is the same, for those who read that anyway.
--
-- A byte 30 for a name is the limit of all queues of tasks that run. It has no key: what runs in
-- each queue is counted. asynq:quern:limit:set has it for queues that are made later.
local function tokens_of(text)
    local list, root = {}, string.sub(KEYS[1], 1, 6)
    for count, name in string.gmatch(text or '', '(%d+) ([^\31]+)') do
        list[#list + 1] = {count = math.min(tonumber(count), @QN_LIMIT_COUNT_MAX@), name = name,
            key = name ~= '\30' and root .. 'sema:' .. name}
    end
    return list
end

-- The prefixes of all queues.
local function queue_prefixes()
    local root = string.sub(KEYS[1], 1, 6)
    local names = redis.pcall('SMEMBERS', root .. 'queues')
    for i, name in ipairs(names) do
        names[i] = root .. '{' .. name .. '}:'
    end
    return names
end

local function tokens_of_all()
    local running = 0
    for _, prefix in ipairs(queue_prefixes()) do
        local size = redis.pcall('LLEN', prefix .. 'active')
        running = running + (type(size) == 'number' and size or 0)
    end
    return running
end

-- The same with how many are held of each.
local function tokens_read(text, now_s)
    local list = tokens_of(text)
    for _, semaphore in ipairs(list) do
        local used = semaphore.key and redis.pcall('ZCOUNT', semaphore.key,
            string.format('%.0f', now_s), '+inf') or tokens_of_all()
        semaphore.used = type(used) == 'number' and used or 0
    end
    return list
end

-- These hold a token until then. Expects that Redis allows the write when memory is full.
local function tokens_take(semaphore, names, until_s, now_s)
    local members = {}
    if not semaphore.key then
        return
    end
    redis.pcall('ZREMRANGEBYSCORE', semaphore.key, '-inf', string.format('%.0f', now_s - 1))
    for _, name in ipairs(names) do
        members[#members + 1] = until_s
        members[#members + 1] = name
    end
    for i = 1, #members, 1000 do
        redis.pcall('ZADD', semaphore.key, unpack(members, i, math.min(i + 999, #members)))
    end
end

-- These runs have ended; T: what precedes their ids.
local function tokens_return(semaphores, T, ids)
    local names = {}
    for i, id in ipairs(ids) do
        names[i] = T .. id
    end
    for _, semaphore in ipairs(semaphores) do
        for i = 1, semaphore.key and #names or 0, 1000 do
            redis.pcall('ZREM', semaphore.key, unpack(names, i, math.min(i + 999, #names)))
            -- bug TOKEN_NOT_RETURNED: local _ = i
        end
    end
end
