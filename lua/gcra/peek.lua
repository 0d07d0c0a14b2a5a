
-- gcra and leaky-bucket: the time when the bucket is full again (tat).
--
-- Value: a string, that time in µs (7 bytes, big-endian). No value: full.
-- cost = what the cost takes in µs, room = burst less cost in µs, x = furthest that tat may be
-- ahead (2 * burst of the largest quota that shares the key), in µs. Work: one read and at most one write.

local is_known = call("GET", key)
local tat = is_known and unpack(">I7", is_known) or 0
local is_changed = tat - now > x
if is_changed then
  tat = now + x
end
local fits = math.max(tat - now, 0) <= room
