-- lib_plain.lua - plain outcomes of a queue, for apply_all of outcome.lua: which of them are alive.
-- Expects lib_done.lua; plain_count outcomes begin at `first`.

-- By the place of the outcome: '1', '2', '3'; nil: it was applied.
local applied, applied_count = {}, plain_count
local ended, places, unstarted, write_limits = {}, {}, {}, nil

-- Those with a valid token leave; returns how many.
local function plan_plain()
    local pcall, n = redis.pcall, 0
    for i = 1, plain_count do
        local id = ARGV[first + 2 * i - 2]
        local name = T .. id
        if ended[id] or pcall('HGET', name, 'pending_since') ~= ARGV[first + 2 * i - 1] then
            -- bug TOKEN_UNCHECKED: if ended[id] then
            applied[i] = '1'
        else
            n = n + 1
            leaving[n], keys_gone[n], places[n], ended[id] = id, name, i, true
        end
    end
    return n
end

-- Plain ones in the set `unsure` that are not active do not leave; returns their places.
local function take_back(unsure)
    local lost = {}
    for n = #leaving, 1, -1 do
        local id = leaving[n]
        if unsure[id] and redis.pcall('HGET', T .. id, 'state') ~= 'active' then
            table.remove(leaving, n)
            table.remove(keys_gone, n)
            lost[#lost + 1] = places[n]
            unsure[id], ended[id] = nil, nil
        end
    end
    return lost
end

