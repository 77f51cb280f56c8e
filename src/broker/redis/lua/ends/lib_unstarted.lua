-- lib_unstarted.lua - the starts that count for no limit, as their runs were returned before they
-- had started; for apply_all of outcome.lua. Returns what writes that.

local limits, has_gates = limits_read(Q, now_ms, {})
local gates = gates_open(Q, now_ms, has_gates and gates_of_all(now_ms) or nil)
local rates = limits and limits.rates or {}
for _, run in ipairs(unstarted) do
    local taken_at_ms = math.min(math.floor(run.fence / 1000), now_ms)
    for _, starts in ipairs(rates) do
        starts_give_back(starts, now_ms, taken_at_ms)
    end
    if limited ~= '1' then
        local f = fields_of(run.id, 'msg', 'quern_opts')
        gates_return(gates, lane_type_of(f[1] or ''), lane_key_of(f[2]), taken_at_ms)
    end
end
return function()
    for _, starts in ipairs(rates) do
        starts_write(starts, now_ms)
    end
    gates_write(gates)
end
