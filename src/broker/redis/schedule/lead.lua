-- lead.lua - the lease of the scheduler that leads: takes, renews or returns it, or only looks.
-- Allowed when the memory is full: it begins with a removal.
--
-- KEYS: asynq:quern:schedule: epoch, owner, id, until_ms, lease_ms; version.
-- ARGV: what (look, take, renew, end), owner, id, lease_ms, the epoch of a leader whose process is
--   known to be dead ("0": none), the highest epoch that a queue was found to have.
-- Reply: {1 if the caller leads, epoch, owner, id, how long the lease lasts in ms, version, now_ms}
local key, what = KEYS[1], ARGV[1]
local got = redis.pcall('HMGET', key, 'epoch', 'owner', 'id', 'until_ms', 'lease_ms', 'version')
if got.err then -- it has another type, and is replaced
    if what ~= 'look' then
        redis.call('DEL', key)
    end
    got = {}
end
-- Above 9e15 not each is a number of its own.
local function number(text)
    local digits = string.match(text or '', '^%d+$')
    local value = digits and tonumber(digits) or 0
    return value <= 9e15 and value or 0
end
local epoch, owner, id = number(got[1]), got[2] or '', got[3] or ''
local until_ms, lease_ms = number(got[4]), number(got[5])
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
-- If the clock went back, the lease does not last longer for that.
local went_back = until_ms - now_ms > lease_ms
local left_ms = math.max(math.min(until_ms - now_ms, lease_ms), 0)
local is_mine = id ~= '' and id == ARGV[3] and owner == ARGV[2]
local is_free = id == '' or left_ms == 0 or (ARGV[5] ~= '0' and number(ARGV[5]) == epoch)

local function text(value)
    return string.format('%.0f', value)
end
local function hold(for_ms)
    redis.call('HDEL', key, '')
    redis.call('HSET', key, 'epoch', text(epoch), 'owner', owner, 'id', id, 'until_ms',
        text(now_ms + for_ms), 'lease_ms', text(lease_ms))
    left_ms = for_ms
end
-- With an epoch that queues refuse, since it was damaged or lost, its owner leads none of them: he
-- takes a later one.
local floor = number(ARGV[6])
local is_refused = is_mine and epoch <= floor
-- bug EPOCH_STAYS_LOW: local is_refused = false
if what == 'take' and (is_refused or is_free and not is_mine) then
    epoch = math.max(epoch + 1, floor + 1, now_ms)
    owner, id, lease_ms, is_mine = ARGV[2], ARGV[3], number(ARGV[4]), true
    hold(lease_ms)
elseif (what == 'take' or what == 'renew') and is_mine then
    lease_ms = number(ARGV[4])
    hold(lease_ms)
elseif what == 'end' and is_mine then
    redis.call('HDEL', key, 'owner', 'id', 'until_ms', 'lease_ms')
    owner, id, left_ms, is_mine = '', '', 0, false
elseif what == 'take' and went_back then
    hold(lease_ms)
end
if left_ms == 0 then
    owner, id, is_mine = '', '', false
end
return {is_mine and 1 or 0, text(epoch), owner, id, text(left_ms),
    text(number(got[6])), text(now_ms)}
