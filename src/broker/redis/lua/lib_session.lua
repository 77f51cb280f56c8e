-- lib_session.lua - makes lost replies harmless: the reply to the last request of a session is
-- kept for ten minutes. The value is "sequence answer". Sequence 0: nothing is kept.

-- The kept answer to this very request, else nil. An older request than the last one is a copy that
-- lingered in a dying connection; no client waits for its reply any more, and it must do nothing.
-- A key of another type is no answer, and session_keep replaces it.
local function session_find(key, sequence)
    -- The answer may be long, and is mostly that of the request before: only its number is read.
    local head = redis.pcall('GETRANGE', key, '0', '20')
    local last = type(head) == 'string' and string.match(head, '^(%d+) ')
    if not last or sequence == '0' then
        return nil
    end
    if last == sequence then
        return string.match(redis.call('GET', key), '^%d+ (.*)$')
    end
    if tonumber(last) > tonumber(sequence) then
        error('a request of this session that came too late')
    end
    return nil
end

local function session_keep(key, sequence, answer)
    if sequence ~= '0' then
        redis.call('SET', key, sequence .. ' ' .. answer, 'EX', '600')
    end
end
