#!lua flags=allow-oom
-- Notes that a node of the fleet is alive, and counts those that are.
--
-- KEYS[1]  a sorted set: nodes by the time in ms until which each counts.
-- ARGV[1]  the node.
-- ARGV[2]  how long it counts, in ms, 1 or more.
-- Reply    the number of nodes that count, this one among them.
-- Redis    7.0 or later; one that is full too, since there is one key, which the fleet bounds.
-- Work     O(log(nodes) + nodes that have gone).

local lifetime = tonumber(ARGV[2])
if not lifetime or lifetime < 1 or lifetime % 1 ~= 0 then
  return redis.error_reply("ERR a lifetime is a whole number of ms")
end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZADD", KEYS[1], now + lifetime, ARGV[1])
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
-- A node whose clock was ahead, or a clock that stepped back, must not count for longer.
redis.call("ZREMRANGEBYSCORE", KEYS[1], now + lifetime + 1, "+inf")
redis.call("PEXPIRE", KEYS[1], lifetime)
return redis.call("ZCARD", KEYS[1])
