-- limits.lua - the limits of a queue with their present use. Writes nothing.
--
-- KEYS: prefix of the queue. Reply: {how many may run (-1: no limit), how many run, how many may
-- start (-1: no limit), in which period in ms, burst, how many starts count now}.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- include: lib_limits.lua
local limits = limits_read(KEYS[1], now_ms) or {}
local starts = limits.starts
return {limits.runs or -1, limits.running or 0, starts and starts.count or -1,
    starts and starts.period_ms or 0, starts and starts.burst or 0,
    starts and starts_used(starts) or 0}
