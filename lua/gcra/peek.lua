-- gcra and leaky-bucket: the time when the bucket is full again (tat).
--
-- Value: a string of four numbers in µs (7 bytes each, big-endian): that time; begun, when units were last
-- spent while the bucket was full; given, how far releases have moved tat back since then, modulo 2^52;
-- reach, the largest burst of those that have written the value. No value: full. An older gateway writes the
-- first alone: then nothing comes back of charges made before now.
-- cost = what the cost takes in µs, room = burst less cost in µs, x = burst in µs. Work: one read and at
-- most one write.

local is_known = call("GET", key)
local tat, begun, given, reach, is_changed = 0, now, 0, x, false
if is_known then
  if #is_known == 28 then
    tat, begun, given, reach = unpack(">I7I7I7I7", is_known)
    if x > reach then
      reach = x
    end
  else
    tat = unpack(">I7", is_known)
  end
  if tat - now > 2 * reach then
    tat, is_changed = now + 2 * reach, true
  end
end
local fits = (tat > now and tat - now or 0) <= room
