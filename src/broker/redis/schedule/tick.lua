-- tick.lua - enqueues the tasks of ticks in one queue, and advances their entries: both or neither.
--
-- KEYS: prefix of the queue.
-- ARGV: session, sequence, epoch, count of ticks, count of tasks, for each tick: name, revision,
--   known_s, tick_s, skipped, what, the number of its task (from 1; '': none); then the tasks as
--   enqueue.lua has them: ids, messages, rows of those that are more than pending ones.
-- Reply: "now_ms results last_s ...": a character and the stored last tick for each tick.
--   o advanced, its task is stored (if it has one); d, c, n the same, but its task is not stored:
--   its lock is held, its id exists, its data went into the task that holds its lock; and
--   unchanged: s the epoch is over, g no such entry, r another revision, h paused, p the last tick
--   is another one, e ahead of the clock, f the queue is full, x damaged.
-- include: lib_session.lua
-- include: lib_varint.lua
-- include: lib_entries.lua
-- include: lib_history.lua
-- include: lib_leftovers.lua
-- include: limits/lib_lanes.lua
-- include: lib_store.lua
local Q = KEYS[1]
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':t'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local epoch, count, task_count = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST, WIDTH = 6, 7
local ids = FIRST + WIDTH * count - 1
local time = redis.call('TIME')
local now_s, now_us = time[1], string.format('%06d', time[2])
local now_ms = string.format('%.0f', now_s * 1000 + math.floor(now_us / 1000))
local policies
-- include: lib_fields.lua
-- include: lib_replace.lua
local batch = {Q = Q, names = {}, ids = ids, messages = ids + task_count,
    rows = ids + 2 * task_count + 1, results = {}, now_s = now_s, now_us = now_us,
    now_ms = now_ms, policies = policies}
for i = 1, task_count do
    batch.names[i] = Q .. 't:' .. ARGV[ids + i]
end

-- The entries, by name.
local rows, histories = {}, {}
local names = {''}
for at = FIRST, ids, WIDTH do
    names[#names + 1] = ARGV[at]
end
local texts = redis.call('HMGET', Q .. 'quern:ticks', unpack(names))
local stored_epoch, revision = entries_head(texts[1])
for i = 2, #names do
    rows[names[i]] = texts[i] and (entry_row(texts[i]) or 'damaged') or nil
end
local is_stale = stored_epoch > epoch
-- bug EPOCH_IGNORED: local is_stale = false

-- Tasks with an unusable lock, or for which a key has the wrong type: each costs its own entry
-- only.
local unusable = {}
local function is_wrong(command, key)
    local answered = redis.pcall(command, key)
    return type(answered) == 'table' and answered.err ~= nil
end
for at = batch.rows, #ARGV, 7 do
    local state, lock, group = ARGV[at + 1], ARGV[at + 3], ARGV[at + 5]
    local has_lock, debounces = lock ~= '', string.sub(ARGV[at + 4], -1) == 'b'
    if (has_lock and not entries_lock_is_sound(Q, lock, ARGV[at + 4])) or
        (has_lock and is_wrong('GET', lock)) or
        (state == 'scheduled' and is_wrong('ZCARD', Q .. 'scheduled')) or
        ((state == 'scheduled' or debounces) and is_wrong('ZCARD', Q .. 'quern:due')) or
        (state == 'aggregating' and
            (is_wrong('ZCARD', Q .. 'g:' .. group) or is_wrong('SCARD', Q .. 'groups'))) then
        unusable[ARGV[at]] = true
    end
end

local function judge(at)
    local row = rows[ARGV[at]]
    local known_s, tick_s = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    if is_stale then
        return 's'
    elseif not row then
        return 'g'
    elseif row == 'damaged' then
        return 'x'
    elseif row.revision ~= ARGV[at + 1] then
        return 'r'
    elseif row.paused ~= '0' then
        return 'h'
    elseif row.last_s ~= known_s or tick_s <= row.last_s then
        -- bug TICK_AGAIN: elseif false then
        return 'p'
    elseif tick_s > tonumber(now_s) then
        return 'e'
    elseif unusable[ARGV[at + 6]] then
        return 'x'
    end
    row.last_s = tick_s
    histories[ARGV[at]] = histories[ARGV[at]] or history_open(Q, ARGV[at])
    return nil
end

local results = {}
local passes = false
for i = 1, count do
    local at = FIRST + WIDTH * (i - 1)
    results[i] = judge(at)
    passes = passes or not results[i]
    if results[i] and ARGV[at + 6] ~= '' then
        batch.results[tonumber(ARGV[at + 6])] = '-'
    end
end
local function reply()
    local lasts = {}
    for i = 1, count do
        local row = not is_stale and rows[names[i + 1]]
        lasts[i] = type(row) == 'table' and string.format('%.0f', row.last_s) or '0'
    end
    return now_ms .. ' ' .. table.concat(results) .. ' ' .. table.concat(lasts, ' ')
end
if not passes then
    return reply()
end
-- A tick whose queue is full fails as it does when the memory is full, and with it all later ones
-- of its entry: the entry keeps its last tick. Returns whether any tick is left.
local function leave_full_ones()
    local full, any_left = {}, false
    for i = 1, count do
        local at = FIRST + WIDTH * (i - 1)
        local name, task = ARGV[at], tonumber(ARGV[at + 6])
        if not results[i] and (full[name] or task and batch.results[task] == 'f') then
            results[i] = full[name] and 'p' or 'f'
            full[name] = full[name] or tonumber(ARGV[at + 2])
            rows[name].last_s = full[name]
            if task then
                batch.results[task] = '-'
            end
        end
        any_left = any_left or not results[i]
    end
    return any_left
end
if task_count > 0 then
    store_read(batch)
    if not leave_full_ones() then
        return reply()
    end
end

-- Writing. The rows come first: Redis refuses them when the memory is full, and then all the rest.
-- What became of a task is known already, as only its name was read for it.
local fields = {}
local letters, whats = {d = 'd', i = 'd', c = 'c', r = 'n'}, {d = '5', c = '6', n = '8'}
for i = 1, count do
    local at = FIRST + WIDTH * (i - 1)
    local name, task = ARGV[at], tonumber(ARGV[at + 6])
    if not results[i] then
        local row = rows[name]
        local letter = task and letters[batch.results[task]] or 'o'
        local is_new = task and letter == 'o'
        results[i] = letter
        row.runs = row.runs + (is_new and 1 or 0)
        row.changed = true
        history_add(histories[name], {at_ms = now_ms, tick_s = ARGV[at + 3],
            what = whats[letter] or ARGV[at + 5], skipped = ARGV[at + 4],
            id = is_new and ARGV[ids + task] or letter == 'n' and batch.holders[task] or '',
            at_s = is_new and now_s or nil})
    end
end
for name, row in pairs(rows) do
    if type(row) == 'table' and row.changed then
        fields[#fields + 1] = name
        fields[#fields + 1] = entry_text(row)
    end
end
if stored_epoch < epoch then
    fields[#fields + 1] = ''
    fields[#fields + 1] = entries_head_text(epoch, revision)
end
redis.call('HSET', Q .. 'quern:ticks', unpack(fields))
if task_count > 0 then
    store_write(batch)
    -- bug TICK_WITHOUT_TASK: batch.results[1] = 'o'
end
for _, history in pairs(histories) do
    history_write(history)
end
answer = reply()
session_keep(session_key, ARGV[2], answer)
return answer
