-- lib_message.lua - a message without its payload: small, with all other facts of a task.

local function message_number(bytes, at)
    local value, unit = 0, 1
    while true do
        local byte = string.byte(bytes, at)
        if not byte or unit > 2 ^ 42 then
            return nil
        end
        value = value + byte % 128 * unit
        unit = unit * 128
        at = at + 1
        if byte < 128 then
            return value, at
        end
    end
end

-- The payload is the field after the type; a message that cannot be decoded is not changed.
local function without_payload(message)
    local at = 1
    if string.byte(message, 1) == @QN_ASYNQ_TAG_TYPE@ then
        local size, data = message_number(message, 2)
        at = size and data + size or 1
    end
    if string.byte(message, at) ~= @QN_ASYNQ_TAG_PAYLOAD@ then
        return message
    end
    local size, data = message_number(message, at + 1)
    if not size or data + size > #message + 1 then
        return message
    end
    return string.sub(message, 1, at - 1) .. string.sub(message, data + size)
end
