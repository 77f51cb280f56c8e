-- lib_workers.lua - the records of workers, whose values begin with the heartbeat in ms.

-- Those without a heartbeat for a day, in a random sample.
local function workers_gone(key, now_ms)
    local gone = {}
    local rows = redis.call('HRANDFIELD', key, 20, 'WITHVALUES')
    for i = 1, #rows, 2 do
        local heartbeat_ms = tonumber(string.match(rows[i + 1], '^%d+') or '0')
        if now_ms - heartbeat_ms > 86400000 then
            gone[#gone + 1] = rows[i]
        end
    end
    return gone
end
