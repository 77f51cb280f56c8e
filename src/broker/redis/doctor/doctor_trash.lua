-- doctor_trash.lua - checks a page of the trash of a queue.
--
-- KEYS: prefix of the queue. ARGV: "1" to repair; the rank at which the page begins; how many
-- entries it has; the sum of the sizes of those before; what quern:trash_bytes was when that sum
-- began, or "" at the first page.
-- Reply: where the next page begins, or "" at the end; the sum with this page; quern:trash_bytes as
-- it was; then for each finding: id, text, 1 if it was repaired.
--
-- At the end the sum is compared with quern:trash_bytes, if that has not changed since the first
-- page: else the queue is in use, and the sum is of several moments.
local Q = KEYS[1]
-- include: trash/lib_trash.lua
local repair, first, size = ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local sum, before = tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function bytes_now()
    local bytes = redis.pcall('GET', Q .. 'quern:trash_bytes')
    return type(bytes) == 'string' and bytes or ''
end
local bytes = bytes_now()
before = first == 0 and bytes or before
local is_still = bytes == before
local page = redis.pcall('ZRANGE', Q .. 'quern:trash', first, first + size - 1, 'WITHSCORES')
if page.err then
    return {'', '0', ''}
end
local reply, removed = {'', '', ''}, 0

local function report(id, text, repaired)
    reply[#reply + 1] = string.sub(id, 1, 300)
    reply[#reply + 1] = text
    reply[#reply + 1] = repaired and 1 or 0
end

local function unlist(member, bytes_of)
    if repair then
        removed = removed + redis.call('ZREM', Q .. 'quern:trash', member)
        trash_count_bytes(Q, -bytes_of)
    else
        sum = sum + bytes_of
    end
end

local function check(member, until_ms)
    local bytes_of, id = string.match(member, '^(%d+) (.+)$')
    if not id or #bytes_of > 15 then
        report('', 'the trash lists ' .. string.sub(member, 1, 40) .. ', which is no task', repair)
        return unlist(member, 0)
    end
    bytes_of = tonumber(bytes_of)
    local key = trash_key(Q, id)
    local is_there = redis.call('EXISTS', key) == 1
    if not is_there and until_ms > now_ms then
        report(id, 'it is in the trash, but its data are gone', repair)
        return unlist(member, bytes_of)
    elseif is_there and not trash_entry(Q, id) then
        report(id, 'its data in the trash cannot be read, and it cannot be restored', false)
    end
    if is_there and redis.call('PTTL', key) == -1 then
        report(id, 'its data in the trash would stay for ever', repair)
        if repair then
            redis.call('EXPIRE', key,
                math.min(math.max(math.ceil((until_ms - now_ms) / 1000), 0), @QN_TRASH_MS@ / 1000)
                    + 1)
        end
    end
    sum = sum + bytes_of
end

for i = 1, #page, 2 do
    check(page[i], tonumber(page[i + 1]))
end

-- What it says decides when the trash is full.
local function check_bytes()
    local noted = bytes_now()
    if string.find(noted, '^%d+$') and tonumber(noted) == sum or noted == '' and sum == 0 then
        return
    end
    report('', string.format('quern:trash_bytes is %s, but what it lists has %.0f',
        noted == '' and 'nothing' or string.sub(noted, 1, 40), sum), repair)
    if repair and sum == 0 then
        redis.call('DEL', Q .. 'quern:trash_bytes')
    elseif repair then
        redis.call('SET', Q .. 'quern:trash_bytes', string.format('%.0f', sum), 'EX',
            @QN_TRASH_MS@ / 1000 + 1)
    end
end

local is_over = #page < 2 * size
if is_over and is_still then
    check_bytes()
end
reply[1] = is_over and '' or string.format('%.0f', first + size - removed)
reply[2] = string.format('%.0f', sum)
reply[3] = is_still and bytes_now() or 'changed'
return reply
