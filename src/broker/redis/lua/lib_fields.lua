-- lib_fields.lua - fields of a message of asynq, read and replaced as bytes; the other bytes stay
-- as they are. Expects now_s, and lib_varint.lua.

-- Only the first fields of a message are read: each header is one.
local FIELDS_MAX = 2000

-- The number at `at` and where the next thing begins; nil where the bytes end. A negative one,
-- which has ten bytes, is -1.
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

-- Calls visit(tag, value, first, after) for each field: the value of a number, the bytes from
-- `first` to before `after`. True; nil if it is not a message.
local function each_field(message, visit)
    local at = 1
    for _ = 1, FIELDS_MAX do
        local first = at
        if at > #message then
            break
        end
        local tag, value
        tag, at = varint_at(message, at)
        local kind = tag and tag % 8
        if kind == 0 then
            value, at = varint_at(message, at)
        elseif kind == 2 then
            local size
            size, at = varint_at(message, at)
            at = size and at + size
        else
            at = kind == 1 and at + 8 or kind == 5 and at + 4 or nil
        end
        if not at or at > #message + 1 then
            return nil
        end
        visit(tag, value, first, at)
    end
    return true
end

-- The message with these fields, bytes by tag, in place of its own. They are put before the
-- headers, where they are found however many headers there are; if it is not a message, at its end.
local function with_fields(message, fields)
    local parts, from, place = {}, 1, nil
    local function take(first)
        parts[#parts + 1] = string.sub(message, from, first - 1)
    end
    local is_sound = each_field(message, function(tag, _, first, after)
        if tag == @QN_ASYNQ_TAG_HEADER@ and not place then
            take(first)
            place, from = #parts + 1, first
            parts[place] = ''
        end
        if fields[tag] then
            take(first)
            from = after
        end
    end)
    local new = (fields[@QN_ASYNQ_TAG_RETRIED@] or '') .. (fields[@QN_ASYNQ_TAG_ERROR@] or '') ..
        (fields[@QN_ASYNQ_TAG_FAILED_AT@] or '')
    if not is_sound or from == 1 then
        return message .. new
    end
    take(#message + 1)
    parts[place or #parts + 1] = new
    return table.concat(parts)
end

-- The fields of a message for a failed run; nil: unchanged. The moment is the server's.
local function failure(retried, text)
    return {[@QN_ASYNQ_TAG_RETRIED@] = retried and
            '\@QN_ASYNQ_TAG_RETRIED@' .. varint(retried),
        [@QN_ASYNQ_TAG_ERROR@] = text and '\@QN_ASYNQ_TAG_ERROR@' .. varint(#text) .. text,
        [@QN_ASYNQ_TAG_FAILED_AT@] = '\@QN_ASYNQ_TAG_FAILED_AT@' .. varint(now_s)}
end
