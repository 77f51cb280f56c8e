-- lib_attempts.lua - how often a task may still be retried, read from its message. Expects
-- number_of.

-- The number at `at` and where the next thing begins; nil where the bytes end. Of a negative one,
-- which has ten bytes, -1.
local function varint_at(bytes, at)
    local value, unit = 0, 1
    for size = 1, 10 do
        local byte = string.byte(bytes, at)
        if not byte then
            return nil
        end
        value, unit, at = value + byte % 128 * unit, unit * 128, at + 1
        if byte < 128 then
            return size == 10 and -1 or value, at
        end
    end
end

-- asynq's retry and retried; nil where that is no message. Of a field that comes twice the
-- last one counts, as for protobuf. It looks at so many fields at most: each header is one.
local FIELDS_MAX = 2000
local function attempts_of(message)
    local found, at = {[@QN_ASYNQ_TAG_RETRY@] = 0, [@QN_ASYNQ_TAG_RETRIED@] = 0}, 1
    for _ = 1, FIELDS_MAX do
        local tag, value
        if at > #message then
            break
        end
        tag, at = varint_at(message, at)
        local kind = tag and tag % 8
        if kind == 0 then
            value, at = varint_at(message, at)
            if found[tag] and value then
                found[tag] = value
            end
        elseif kind == 2 then
            value, at = varint_at(message, at)
            at = value and at + value
        else
            at = kind == 1 and at + 8 or kind == 5 and at + 4 or nil
        end
        if not at or at > #message + 1 then
            return nil
        end
    end
    return math.max(found[@QN_ASYNQ_TAG_RETRY@], 0),
        math.min(math.max(found[@QN_ASYNQ_TAG_RETRIED@], 0), 2147483647)
end
