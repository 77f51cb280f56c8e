-- lib_lease_limits.lua - the part of lease.lua for queues with limits: how much less of them is
-- read, and what was used. Expects lib_limits.lua and what lease.lua has read; fills the table
-- `limits`.
limits = {of = {}}
for i = 1, queue_count do
    limits.of[i] = odd_queues[i] and odd_queues[i].limited and limits_read(KEYS[i], now_ms)
end

-- How many of `want` may be read; a queue that can give no more is marked as empty.
function limits.want(i, want)
    local own, queue = limits.of[i], queues[i]
    local room = own and limits_room(own) - (queue and queue.count or 0)
    if not own or want <= room then
        return want
    elseif room > 0 then
        return room
    elseif queue then
        queue.empty = true
    else
        queues[i] = false
    end
    return 0
end

-- So many were leased.
function limits.take(i, count)
    local own = limits.of[i]
    if own and count > 0 then
        own.running = own.running + count
        if own.starts then
            starts_take(own.starts, count)
        end
    end
end

-- Writes what was used; returns in how many ms the next task may start, 0: now, or when a run
-- ends, or no task waits.
function limits.finish(i)
    local own, prefix = limits.of[i], KEYS[i]
    if not own or not own.starts then
        return 0
    end
    if own.starts.changed then
        try('ZREM', prefix .. 'lease', '') -- for the other writes when memory is full
        starts_write(own.starts, now_ms)
    end
    local size = odd_queues[i].paused == 0 and try('LLEN', prefix .. 'pending')
    if type(size) ~= 'number' or size == 0 or own.runs and own.running >= own.runs then
        return 0
    end
    return starts_wait_ms(own.starts, now_ms)
end
