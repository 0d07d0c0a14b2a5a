-- A sliding window of two counters: the current one's, and the part of the previous one that
-- counts.
-- KEYS: both counters. ARGV: the quota, the share of the previous window, ms to keep a counter.
-- Returns whether the request is admitted, and what is left.

local counts = redis.call('MGET', KEYS[1], KEYS[2])
local current = tonumber(counts[1]) or 0
local used = current + math.floor((tonumber(counts[2]) or 0) * tonumber(ARGV[2]))
local left = tonumber(ARGV[1]) - used - 1
if left < 0 then
    return {0, 0}
end
redis.call('INCR', KEYS[1])
if current == 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {1, left}
