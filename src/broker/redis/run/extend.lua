-- extend.lua - extends the leases of one queue that are still held.
--
-- KEYS: prefix of the queue. ARGV: lease in ms, then id and token of each, at most 128.
-- Reply: for each 0 lost, 1 held, 2 held and to be cancelled (retry), 3 the same (archive).
--
-- The token stays. The exact end is in quern_run, the score is the second rounded up.
local Q = KEYS[1]
redis.call('ZREM', Q .. 'lease', '')
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
local score = string.format('%.0f', math.ceil(until_ms / 1000))
until_ms = string.format('%.0f', until_ms)

local ids = {}
for i = 2, #ARGV, 2 do
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
    if leases[i] and not fields.err and fields[1] == 'active' and fields[2] == ARGV[2 * i + 1] then
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
return table.concat(answers)
