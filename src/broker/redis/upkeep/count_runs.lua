-- count_runs.lua - how many runs a worker has started among a page of those that are active in a
-- queue; it stops at two, as more make no difference. Writes nothing.
--
-- KEYS: prefix of the queue. ARGV: worker id, where the page begins (from the oldest on), the
-- argument that the page before returned (lib_pages.lua), its size.
-- Reply: {how many, where the next page begins (0: there is none), the argument for it, 1 if
-- ids before this page may have been passed over}.
local Q, worker = KEYS[1], ARGV[1]
-- include: lib_pages.lua
local from, is_sure = page_begin(tonumber(ARGV[2]), ARGV[3])
local size = tonumber(ARGV[4])
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
local function is_gone()
    return false
end
local is_last = #ids < size
return {count, is_last and 0 or from + #ids,
    is_last and '' or page_anchors(ids, #ids, is_gone, ''), is_sure and 0 or 1}
