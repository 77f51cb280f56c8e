-- lib_others.lua - applies the outcomes of a queue that are not plain, or came too late, and notes
-- its starts, for apply_all of outcome.lua. Expects lib_outcomes.lua.

for _, i in ipairs(lost) do
    applied[i] = apply_next('', ARGV[first + 2 * i - 2], ARGV[first + 2 * i - 1], 0)
end
local at = others_at
while at < after do
    local kind, id, token = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    if kind == 'k' then
        at = change.ask(id, at + 3)
    else
        applied_count = applied_count + 1
        applied[applied_count] = apply_next(kind, id, token, at + 3)
        change.asked[id] = nil
        at = at + 3 + words_of(kind)
    end
end
for i = starts_at, others_at - 1, 2 do
    note_start(ARGV[i], ARGV[i + 1])
end
