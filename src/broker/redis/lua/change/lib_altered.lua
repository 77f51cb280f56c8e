-- lib_altered.lua - a task with other data, or in another queue: its message, and the fences of
-- that queue. Expects lib_fields.lua and lib_varint.lua.

local function field_of(tag, bytes)
    return bytes ~= '' and string.char(tag) .. varint(#bytes) .. bytes or ''
end

-- The message with these data. The payload stays the field after the type, where readers of its
-- beginning look for it; nil if it is not a message.
local function altered_message(message, data)
    local parts, after_all = {}, 1
    local retry = data.retry ~= '' and tonumber(data.retry)
    local is_sound = each_field(message, function(tag, _, first, after)
        local is_gone = tag == @QN_ASYNQ_TAG_PAYLOAD@ and data.payload or
            tag == @QN_ASYNQ_TAG_RETRY@ and retry
        if tag == @QN_ASYNQ_TAG_QUEUE@ and data.queue ~= '' then
            parts[#parts + 1] = field_of(tag, data.queue)
        elseif tag == @QN_ASYNQ_TAG_UNIQUE_KEY@ and data.lock ~= '' then
            parts[#parts + 1] = field_of(tag, data.lock)
        elseif not is_gone then
            parts[#parts + 1] = string.sub(message, first, after - 1)
        end
        if tag == @QN_ASYNQ_TAG_TYPE@ and data.payload then
            parts[#parts + 1] = field_of(@QN_ASYNQ_TAG_PAYLOAD@, data.payload)
        elseif tag == @QN_ASYNQ_TAG_QUEUE@ and retry and retry > 0 then
            parts[#parts + 1] = '\@QN_ASYNQ_TAG_RETRY@' .. varint(retry)
        end
        after_all = after
    end)
    parts[#parts + 1] = string.sub(message, after_all)
    return is_sound and table.concat(parts) or nil
end

-- Its next run has a later fence than the one that ends, also where the clock has gone back since.
-- A queue that has given no run yet has no last fence (lease.lua notes limits in it then): there
-- the field `moved` stands for it.
local function raise_fence(meta, fence)
    local last = redis.call('HGET', meta, 'fence')
    local field = last and 'fence' or 'moved'
    last = last or redis.call('HGET', meta, field) or ''
    local is_later = string.find(last, '^[1-9]%d*$') and tonumber(last) >= (tonumber(fence) or 0)
    if not is_later and fence ~= '' then
        redis.call('HSET', meta, field, fence)
        -- bug FENCE_LEFT_BEHIND: redis.call('EXISTS', meta)
    end
end
