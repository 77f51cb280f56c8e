-- lib_runs.lua - the last runs of a task, quern_runs, newest first: src/task/past_runs.h has the
-- form; change both together. Expects now_ms.

local RUNS_SIZE_MAX = @QN_PAST_RUNS_SIZE_MAX@

-- The text with this entry, which ended now ("": none), before those of `old` (nil or false: none).
-- Of these the oldest beyond the limit is dropped, and all of a damaged text.
local function runs_text(entry, old)
    local kept = entry ~= '' and string.format('%.0f %s\30', now_ms, entry) or ''
    if not old or #old > RUNS_SIZE_MAX then
        return kept
    end
    local after = 0
    for _ = 2, @QN_PAST_RUNS_MAX@ do
        local at = string.find(old, '\30', after + 1, true)
        if not at then
            break
        end
        after = at
    end
    return kept .. string.sub(old, 1, after)
end

-- Without the newest one.
local function runs_older(old)
    local at = old and string.find(old, '\30', 1, true)
    return at and string.sub(old, at + 1)
end
