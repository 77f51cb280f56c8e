-- lib_attempts.lua - how often a task may still be retried, read from its message. Expects
-- lib_fields.lua.

-- asynq's retry and retried; nil if it is not a message. Of a repeated field the last one
-- counts, as for protobuf.
local function attempts_of(message)
    local found = {[@QN_ASYNQ_TAG_RETRY@] = 0, [@QN_ASYNQ_TAG_RETRIED@] = 0}
    local is_sound = each_field(message, function(tag, value)
        if found[tag] then
            found[tag] = value
        end
    end)
    if not is_sound then
        return nil
    end
    return math.max(found[@QN_ASYNQ_TAG_RETRY@], 0),
        math.min(math.max(found[@QN_ASYNQ_TAG_RETRIED@], 0), 2147483647)
end
