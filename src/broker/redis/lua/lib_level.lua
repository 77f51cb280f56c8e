-- lib_level.lua - how much company a charged task may have (struct qn_deaths of src/task/deaths.h).

-- By its quern_past: the eleventh number, or the first one where it has no more than ten. nil: it
-- is not charged.
local function deaths_level(past)
    local charges = string.match(past or '', '^[1-9]%d*')
    local level = charges and string.match(past, '^' .. string.rep('%d+ ', 10) .. '(%d+)')
    return charges and math.min(tonumber(level or charges), @QN_ALONE_CHARGES@)
end

