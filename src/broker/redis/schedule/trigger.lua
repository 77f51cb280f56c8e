-- trigger.lua - enqueues the task of an entry by hand: its last tick stays, runs + 1.
--
-- KEYS: prefix of the queue.
-- ARGV: session, sequence, name, id, message, and where it is more than a pending task the row of
--   enqueue.lua.
-- Reply: o stored, c its id exists, f the queue is full, g no such entry, x it is damaged; and with
-- the id of the task that holds its lock: d refused, i left out, r its data went there.
-- include: lib_session.lua
-- include: lib_varint.lua
-- include: lib_entries.lua
-- include: lib_history.lua
-- include: lib_leftovers.lua
-- include: limits/lib_lanes.lua
-- include: lib_store.lua
local Q, name = KEYS[1], ARGV[3]
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':t'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local time = redis.call('TIME')
local now_s, now_us = time[1], string.format('%06d', time[2])
local now_ms = string.format('%.0f', now_s * 1000 + math.floor(now_us / 1000))
local policies
-- include: lib_fields.lua
-- include: lib_replace.lua
local batch = {Q = Q, names = {Q .. 't:' .. ARGV[4]}, ids = 3, messages = 4, rows = 6, results = {},
    now_s = now_s, now_us = now_us, now_ms = now_ms, policies = policies}
local text = redis.call('HGET', Q .. 'quern:ticks', name)
local row = text and entry_row(text)
if not row then
    return text and 'x' or 'g'
end
local lock = ARGV[9] or ''
if lock ~= '' and not entries_lock_is_sound(Q, lock, ARGV[10]) then
    return 'x'
end
local history = history_open(Q, name)
store_read(batch)
local result, holder = batch.results[1] or 'o', batch.holders[1] or ''
if result ~= 'o' and result ~= 'r' then
    return result .. holder
end
row.runs = row.runs + (result == 'o' and 1 or 0)
redis.call('HSET', Q .. 'quern:ticks', name, entry_text(row))
store_write(batch)
history_add(history, {at_ms = now_ms, tick_s = '0', what = result == 'o' and '7' or '8',
    skipped = '0', id = result == 'o' and ARGV[4] or holder,
    at_s = result == 'o' and now_s or nil})
history_write(history)
answer = result .. holder
session_keep(session_key, ARGV[2], answer)
return answer
