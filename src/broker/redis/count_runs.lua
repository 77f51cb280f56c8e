-- count_runs.lua - how many runs a worker has started among a page of those that are active in a
-- queue; it stops at two, as more make no difference. Writes nothing.
--
-- KEYS: prefix of the queue. ARGV: worker id, where the page begins (from the oldest on), its size.
-- Reply: {how many, how many ids were looked at}.
local Q, worker = KEYS[1], ARGV[1]
local from, size = tonumber(ARGV[2]), tonumber(ARGV[3])
local ids = redis.call('LRANGE', Q .. 'active', -(from + size), -(from + 1))
local count = 0
for _, id in ipairs(ids) do
    local fields = redis.pcall('HMGET', Q .. 't:' .. id, 'state', 'pending_since', 'quern_run')
    if fields[1] == 'active' and fields[2] and fields[3] then
        local owner = string.match(fields[3], '^1 %d+ %d+ %d+ (.*)$')
        count = count + (owner == worker and 1 or 0)
    end
    if count == 2 then
        break
    end
end
return {count, #ids}
