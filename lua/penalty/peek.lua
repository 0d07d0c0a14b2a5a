-- penalty: a client that was refused stays refused until a time.
--
-- Value: a string, the end of the last penalty (7 bytes, µs) and how long it was (7), big-endian. No value: none.
-- x = how long a first penalty is, in µs; y = how many times longer a further one is that begins within a day of the
-- end. Cost: 1 begins one, unless one runs. Work: one read and at most one write.

local value, is_known = call("GET", key), true
local ends, length, is_changed = 0, 0, false
if value then
  ends, length = unpack(">I7I7", value)
  if ends - now > length then
    ends, is_changed = now + length, true
  end
end
local fits = ends <= now
