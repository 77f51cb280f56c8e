-- lib_done.lua - common to all ends of runs: the ids that leave `lease`, the keys to delete, the
-- fields of quern:meta. A run that is done and leaves nothing behind needs no more. Expects Q, the
-- prefix of the queue, and lib_count.lua.

local T = Q .. 't:'

local leaving, keys_gone = {}, {}
local processed, failed = 0, 0
-- Fields of quern:meta and their new texts, brakes and the solo lock; and optional
-- commands: one that fails stops nothing.
local meta_sets, notes = nil, nil
-- Whether any run that had started ended otherwise than by the death of its process.
local any_ended = false

local function count(processed_more, failed_more)
    processed = processed + processed_more
    failed = failed + failed_more
    any_ended = true
end

-- Its first command fails if `lease` has the wrong type, and is one that Redis allows when the
-- memory is full, so that all later ones are allowed: it precedes all writes, even if no id leaves.
-- The caller removes the ids from `active`, since it knows where they are in that list.
local function done_write()
    redis.call('ZREM', Q .. 'lease', leaving[1] or '', unpack(leaving, 2))
    for i = 1, #keys_gone, 1000 do
        redis.call('DEL', unpack(keys_gone, i, math.min(i + 999, #keys_gone)))
    end
    if processed > 0 then
        count_write(Q, processed, failed)
    end
    if meta_sets then
        redis.call('HSET', Q .. 'quern:meta', unpack(meta_sets))
    end
    for i = 1, notes and #notes or 0 do
        redis.pcall(unpack(notes[i]))
    end
end
