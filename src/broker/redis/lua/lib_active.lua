-- lib_active.lua - takes ids out of `active`, at a cost that hardly depends on how many others run.
--
-- Runs that end together were mostly leased together, so their ids stand together: at the oldest
-- end of the list, the right one, or, if others hold older runs, behind a few newer ones or
-- deep in the list. A window at either end is cut off, and its other ids are put back; deep in
-- the list each is overwritten, and one walk removes them all. The few that are left are removed by
-- a walk each.

-- If this many are missing, a search for a place where many of them are pays off.
local MANY_MISSING = 8
-- Where others run, a single id is first searched among this many of the newest.
local NEW_RUNS = 1000

-- Goes through ids, forwards (step 1) or backwards (-1), which follow those that the window has
-- seen, and takes those of `gone`, `missing` of them, that it finds out of that set; returns how
-- many. In the end the list is cut off up to the last found one: `size` ids, of which the first
-- `back` of `kept` are put back.
local function active_look(window, ids, step, gone, missing)
    local kept, found = window.kept, 0
    local first, last = 1, #ids
    if step < 0 then
        first, last = last, first
    end
    local seen, size, back, kept_count = window.seen, window.size, window.back, #kept
    for i = first, last, step do
        local id = ids[i]
        seen = seen + 1
        if gone[id] then
            gone[id] = nil
            found, size, back = found + 1, seen, kept_count
            if found == missing then
                break
            end
        else
            kept_count = kept_count + 1
            kept[kept_count] = id
        end
    end
    window.seen, window.size, window.back = seen, size, back
    return found
end

-- Searches ids that are not at the right end: returns the window at the left end, or nil, and
-- places deep in the list. `ids` are in the order of their ends, which is about that of their
-- leases: the others are on the left of the first, the newer side.
local function active_look_far(key, ids, count, gone, missing)
    local left, deep = nil, {}
    local older = math.ceil(count / 4)
    for i = 1, count do
        if missing < MANY_MISSING then
            break
        end
        local place = gone[ids[i]] and redis.call('LPOS', key, ids[i])
        if place and place < 4 * count and not left then
            local near = redis.call('LRANGE', key, '0', place + older)
            left = {seen = 0, size = 0, back = 0, kept = {}}
            missing = missing - active_look(left, near, 1, gone, missing)
        elseif place then
            local before, first = missing, math.max(place - count, 0)
            for k, id in ipairs(redis.call('LRANGE', key, first, place + older)) do
                if gone[id] then
                    gone[id], missing = nil, missing - 1
                    deep[#deep + 1] = first + k - 1
                end
            end
            if before - missing < MANY_MISSING then
                break
            end
        end
    end
    return left, deep
end

local spare = {} -- the set of the plan before, mostly empty, and of the right size

-- Where the first `count` ids are in the list; only reads. In `gone` are those that were not found.
-- The plan before is used up.
local function active_find(key, ids, count)
    local gone, missing = next(spare) and {} or spare, count
    spare = gone
    local right = {seen = 0, size = 0, back = 0, kept = {}}
    for i = 1, count do
        gone[ids[i]] = true
    end
    -- From the right end on, as long as many are found there. A few ids cost less than a command.
    local found, step = count, count < 32 and count + 16 or count
    while missing * 4 >= count and found * 4 >= count and count > 0 do
        local near = redis.call('LRANGE', key, -right.seen - step, -right.seen - 1)
        found = active_look(right, near, -1, gone, missing)
        missing = missing - found
    end
    local plan = {right = right, gone = gone}
    if missing >= MANY_MISSING then
        plan.left, plan.deep = active_look_far(key, ids, count, gone, missing)
    end
    return plan
end

-- Puts back the ids of a window that stay, beginning with the one seen last.
local function active_put_back(key, command, window)
    local ids = {}
    for i = window.back, 1, -1 do
        ids[#ids + 1] = window.kept[i]
    end
    for i = 1, #ids, 1000 do
        redis.call(command, key, unpack(ids, i, math.min(i + 999, #ids)))
    end
end

-- Removes all of them; the deep ones first, while their places are still valid.
local function active_leave(key, plan)
    if plan.deep and plan.deep[1] then
        for _, place in ipairs(plan.deep) do
            redis.call('LSET', key, place, 'quern:gone')
        end
        redis.call('LREM', key, #plan.deep, 'quern:gone')
    end
    if plan.left then
        redis.call('LTRIM', key, plan.left.size, '-1')
        active_put_back(key, 'LPUSH', plan.left)
    end
    if plan.right.size > 0 then
        redis.call('LTRIM', key, '0', -plan.right.size - 1)
        active_put_back(key, 'RPUSH', plan.right)
    end
    local is_long = next(plan.gone) and redis.call('LLEN', key) > NEW_RUNS
    for id in pairs(plan.gone) do
        local is_new = is_long and redis.call('LPOS', key, id, 'MAXLEN', NEW_RUNS)
        redis.call('LREM', key, is_new and '1' or '-1', id)
    end
end
