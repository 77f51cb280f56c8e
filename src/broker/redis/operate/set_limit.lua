-- set_limit.lua - sets or removes limits of a queue (lib_limits.lua, lib_gates.lua). It works when
-- the memory is full, too: a script that has begun to write may go on.
--
-- KEYS: prefix of the queue. ARGV: "s", field of quern:limit:set, value; "r" and the fields to
-- remove; or "u": those of all queues may have changed. Reply: how many were set or removed.
-- A field "4r:name" is a semaphore (lib_tokens.lua). When they change, the runs of quern give
-- back what they hold of the old ones, and hold a token of each of the new ones.
--
-- `limits` in quern:meta: 1 there are limits, of the whole queue only; 2 there are some of types or
-- keys, or tasks in lanes; 3 tasks with a limit_key have come, whose keys take turns from then on.
-- include: limits/lib_tokens.lua
local Q = KEYS[1]
local key, meta = Q .. 'quern:limit:set', Q .. 'quern:meta'
local old = redis.call('HGET', meta, 'limits')
redis.pcall('ZREM', Q .. 'lease', '')
local kind = redis.call('TYPE', key).ok
if kind ~= 'hash' and kind ~= 'none' then
    redis.call('DEL', key)
end
local function change_tokens(old, new)
    local held, now_s = {}, tonumber(redis.call('TIME')[1])
    local ids = redis.call('LRANGE', Q .. 'active', 0, -1)
    tokens_return(old, Q .. 't:', ids)
    for _, id in ipairs(new[1] and ids or {}) do
        -- Go's tasks have no token of ours, and their handlers take those of semaphores themselves.
        local until_s = redis.call('ZSCORE', Q .. 'lease', id)
        if until_s and redis.pcall('HEXISTS', Q .. 't:' .. id, 'pending_since') == 1 then
            held[#held + 1] = {Q .. 't:' .. id, until_s}
        end
    end
    for _, semaphore in ipairs(new) do
        for _, run in ipairs(held) do
            tokens_take(semaphore, {run[1]}, run[2], now_s)
        end
    end
end

-- Sets the semaphore to so many tokens, or removes it (tokens false). The limit of all queues is
-- one of those of each queue. Returns 1 if there was one of this name.
local function change_semaphores(name, tokens)
    local old, texts, found = tokens_of(redis.call('HGET', key, '4')), {}, 0
    local of_all = redis.pcall('HGET', string.sub(Q, 1, 6) .. 'quern:limit:set', '4')
    for _, semaphore in ipairs(old) do
        if semaphore.name == name then
            found = 1
        elseif semaphore.key then
            texts[#texts + 1] = string.format('%d %s', semaphore.count, semaphore.name)
        end
    end
    texts[#texts + 1] = tokens and tokens .. ' ' .. name or nil
    table.sort(texts, function(a, b) return string.match(a, ' .*') < string.match(b, ' .*') end)
    texts[#texts + 1] = type(of_all) == 'string' and of_all or nil
    local text = table.concat(texts, '\31')
    if text ~= '' then
        redis.call('HSET', key, '4', text)
        redis.call('HSET', meta, 'sema', text)
    else
        redis.call('HDEL', key, '4')
        redis.call('HDEL', meta, 'sema')
    end
    change_tokens(old, tokens_of(text))
    return found
end

-- Notes which limits of all queues there are: letters as lib_limits.lua has them.
local function note_marks()
    local marks = redis.pcall('HGET', string.sub(Q, 1, 6) .. 'quern:limit:set', '0')
    marks = type(marks) == 'string' and marks or ''
    if marks ~= '' then
        redis.call('HSET', key, '0', marks)
    else
        redis.call('HDEL', key, '0')
    end
    return string.find(marks, 't', 1, true) ~= nil, string.find(marks, 'r', 1, true) ~= nil
end

local count, name = 1, string.match(ARGV[2] or '', '^4r:(.+)$')
local changed = change_semaphores(name, name and ARGV[1] == 's' and ARGV[3])
if ARGV[1] == 'r' and name then
    count = changed
elseif ARGV[1] == 'r' then
    count = redis.call('HDEL', key, unpack(ARGV, 2))
elseif ARGV[1] == 's' and not name then
    redis.call('HSET', key, ARGV[2], ARGV[3])
end
local any, any_of_tasks, any_runs = false, note_marks()
for _, field in ipairs(redis.call('HKEYS', key)) do
    any = true
    any_of_tasks = any_of_tasks or string.find(field, '^[23][rs]:') ~= nil
    any_runs = any_runs or string.find(field, '^[23]r:') ~= nil
end
-- Made again for the next one. Before this queue has noted those of all, its runs may have been
-- counted for another, but what it has leased since then is missing.
if not any_runs or ARGV[1] == 'u' then
    redis.call('DEL', Q .. 'quern:limit:runs')
end
redis.call('DEL', Q .. 'quern:lanes:idle')
if old ~= '3' and (any_of_tasks or redis.call('EXISTS', Q .. 'quern:lanes') == 1) then
    redis.call('HSET', meta, 'limits', '2')
elseif old ~= '3' and any then
    redis.call('HSET', meta, 'limits', '1')
elseif old ~= '3' then
    redis.call('HDEL', meta, 'limits')
end
return count
