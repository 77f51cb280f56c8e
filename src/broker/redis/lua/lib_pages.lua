-- lib_pages.lua - walks through `active` page by page, from the oldest on, in several calls.
-- Expects Q.
--
-- Meanwhile runs end, and the ids behind them move up. So the next call gets some ids of the end of
-- the page before, packed, and begins behind the last of them that is still there; nothing was put
-- between them, as new ones come at the other end.
local ANCHORS = 8

-- Where the page begins, and whether that is certain: else some ids may have been passed over.
local function page_begin(from, packed)
    if from <= 0 then
        -- bug PAGE_NOT_SOUGHT: if from >= 0 then if true then return from, true end
        return 0, true
    end
    for _, id in ipairs(packed ~= '' and cmsgpack.unpack(packed) or {}) do
        if redis.call('LINDEX', Q .. 'active', -from) == id then
            return from, true
        end
        local at = redis.call('LPOS', Q .. 'active', id, 'RANK', -1, 'MAXLEN', from)
        if at then
            return redis.call('LLEN', Q .. 'active') - at, true
        end
    end
    return from < redis.call('LLEN', Q .. 'active') and from or 0, false
end

-- The argument for the next page. ids: as LRANGE returned them, the oldest last; of these `looked`
-- were read. is_gone(k): the k-th of them leaves. packed: the argument of this page.
local function page_anchors(ids, looked, is_gone, packed)
    local anchors = {}
    for k = looked, 1, -1 do
        if not is_gone(k) then
            anchors[#anchors + 1] = ids[#ids - k + 1]
        end
        if #anchors == ANCHORS then
            break
        end
    end
    return #anchors > 0 and cmsgpack.pack(anchors) or packed
end
