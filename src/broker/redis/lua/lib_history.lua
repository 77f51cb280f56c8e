-- lib_history.lua - what became of the ticks of an entry: asynq's zset, which Go's Inspector lists,
-- and our list, Q quern:ticklog:<name>, "at_ms tick_s what skipped id" (what: enum qn_tick_what).
-- Both end after 1000 events, and 90 days after the last one. Needs lib_varint.lua.

-- Before the first write. A key of another type costs the history of this entry.
local function history_open(Q, name)
    local go_key = string.sub(Q, 1, 6) .. 'scheduler_history:' .. string.sub(Q, 7) .. name
    local log_key = Q .. 'quern:ticklog:' .. name
    return {
        go_key = type(redis.pcall('ZCARD', go_key)) == 'number' and go_key,
        log_key = type(redis.pcall('LLEN', log_key)) == 'number' and log_key,
        events = {}, lines = {}}
end

local function history_add(history, event)
    history.lines[#history.lines + 1] = string.format('%s %s %s %s %s', event.at_ms, event.tick_s,
        event.what, event.skipped, event.id)
    if event.at_s then
        local moment = '\8' .. varint(tonumber(event.at_s))
        history.events[#history.events + 1] = event.at_s
        history.events[#history.events + 1] = '\10' .. varint(#event.id) .. event.id .. '\18' ..
            varint(#moment) .. moment
    end
end

local function history_write(history)
    if history.log_key and #history.lines > 0 then
        redis.call('LPUSH', history.log_key, unpack(history.lines))
        redis.call('LTRIM', history.log_key, 0, 999)
        redis.call('EXPIRE', history.log_key, 7776000)
    end
    if history.go_key and #history.events > 0 then
        redis.call('ZADD', history.go_key, unpack(history.events))
        redis.call('ZREMRANGEBYRANK', history.go_key, 0, -1001)
        redis.call('EXPIRE', history.go_key, 7776000)
    end
end
