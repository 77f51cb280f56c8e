-- trigger.lua - enqueues the task of an entry by hand: its last tick stays, runs + 1.
--
-- KEYS: prefix of the queue.
-- ARGV: session, sequence, name, id, message, and where it is more than a pending task the row of
--   enqueue.lua.
-- Reply: o stored, d its lock is held, c its id exists, f the queue is full, g no such entry, x it
-- is damaged.
-- include: lib_session.lua
-- include: lib_varint.lua
-- include: lib_entries.lua
-- include: lib_history.lua
-- include: lib_leftovers.lua
-- include: lib_store.lua
local Q, name = KEYS[1], ARGV[3]
local session_key = Q .. 'quern:s:' .. ARGV[1] .. ':t'
local answer = session_find(session_key, ARGV[2])
if answer then
    return answer
end
local time = redis.call('TIME')
local batch = {Q = Q, names = {Q .. 't:' .. ARGV[4]}, ids = 3, messages = 4, rows = 6, results = {},
    now_s = time[1], now_us = string.format('%06d', time[2])}
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
if batch.results[1] then
    return batch.results[1]
end
row.runs = row.runs + 1
redis.call('HSET', Q .. 'quern:ticks', name, entry_text(row))
store_write(batch)
history_add(history, {
    at_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)),
    tick_s = '0', what = '7', skipped = '0', id = ARGV[4], at_s = time[1]})
history_write(history)
session_keep(session_key, ARGV[2], 'o')
return 'o'
