-- lib_leftovers.lua - entries of the index of due moments that no task needs any more.
--
-- Where no worker of ours forwards, Go does, and leaves the entries of the index behind. So each
-- enqueue removes a few, and twice as many as it adds: those whose moment has passed, and whose
-- task does not wait for it any more.
local function store_leftovers(Q, now_s, now_us, limit)
    local leftovers = {}
    local now_ms = string.format('%.0f', now_s * 1000 + math.floor(now_us / 1000))
    local past = redis.pcall('ZRANGEBYSCORE', Q .. 'quern:due', '-inf', now_ms, 'WITHSCORES',
        'LIMIT', 0, limit)
    for i = 1, #past, 2 do
        local second = string.format('%.0f', math.ceil(past[i + 1] / 1000))
        if redis.pcall('ZSCORE', Q .. 'scheduled', past[i]) ~= second and
            redis.pcall('ZSCORE', Q .. 'retry', past[i]) ~= second then
            leftovers[#leftovers + 1] = past[i]
            -- bug DUE_LEFT_BEHIND: leftovers = {}
        end
    end
    return leftovers
end
