-- extend.lua - extends the leases of one queue that are still held.
--
-- KEYS: prefix of the queue. ARGV: lease in ms, how many, then id and token of each, at most 128;
-- then of those that are to keep a lock: its number among them, the lock, for how many ms.
-- Reply: for each 0 lost, 1 held, 2 held and to be cancelled (retry), 3 the same (archive).
--
-- The token stays. The exact end is in quern_run, the score is the second rounded up.
local Q = KEYS[1]
redis.call('ZREM', Q .. 'lease', '')
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local score = string.format('%.0f', math.ceil(until_ms / 1000))
until_ms = string.format('%.0f', until_ms)

local ids, locks_at = {}, 3 + 2 * tonumber(ARGV[2])
for i = 3, locks_at - 1, 2 do
    ids[#ids + 1] = ARGV[i]
end
local leases = redis.call('ZMSCORE', Q .. 'lease', unpack(ids))
local answers = {}
local scores = {}
local runs = {}
for i, id in ipairs(ids) do
    local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'pending_since', 'quern_cancel',
        'quern_run')
    answers[i] = '0'
    if leases[i] and not fields.err and fields[1] == 'active' and fields[2] == ARGV[2 * i + 2] then
        answers[i] = fields[3] == 'retry' and '2' or fields[3] and '3' or '1'
        scores[#scores + 1] = score
        scores[#scores + 1] = id
        local first, last = string.match(fields[4] or '', '^(%d+ %d+ %d+ )%d+(.*)$')
        runs[id] = first and first .. until_ms .. last
    end
end
if #scores > 0 then
    redis.call('ZADD', Q .. 'lease', 'XX', unpack(scores))
end
for id, run in pairs(runs) do
    redis.call('HSET', Q .. 't:' .. id, 'quern_run', run)
    -- bug EXTEND_CHANGES_TOKEN: redis.call('HSET', Q .. 't:' .. id, 'pending_since', '1')
end
local semaphores = #scores > 0 and redis.call('HGET', Q .. 'quern:meta', 'sema')
if semaphores then
-- include: limits/lib_tokens.lua
    local held = {}
    for i, id in ipairs(ids) do
        held[#held + 1] = answers[i] ~= '0' and Q .. 't:' .. id or nil
    end
    for _, semaphore in ipairs(tokens_of(semaphores)) do
        tokens_take(semaphore, held, score, tonumber(time[1]))
        -- bug TOKEN_NOT_EXTENDED: local _ = held
    end
end
for i = locks_at, #ARGV, 3 do
    local k, lock, ms = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2])
    local may_hold = answers[k] ~= '0' and string.sub(lock, 1, #Q + 7) == Q .. 'unique:'
    local holder = may_hold and redis.pcall('GET', lock)
    -- bug LOCK_NOT_RENEWED: local holder = ''
    if may_hold and (holder == ids[k] or holder == false) then
        local left = redis.call('PTTL', lock)
        if left ~= -1 and left < ms then
            redis.call('SET', lock, ids[k], 'PX', ARGV[i + 2])
        end
    end
end
return table.concat(answers)
