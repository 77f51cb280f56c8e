-- lib_lock.lua - the lock of a unique task. Expects Q, the prefix of the queue.

-- Whether the lock is one of this queue and held by this task; lock: its key, or nothing.
local function owns_lock(id, lock)
    return lock and string.sub(lock, 1, #Q + 7) == Q .. 'unique:' and
        redis.pcall('GET', lock) == id
end
