-- in-flight: units that requests hold, of each gateway one number.
--
-- Value: a string of one row per gateway (35 bytes, big-endian, 7 each): the gateway; how many units it holds; the
-- sequence number of its last announcement; the highest sequence number of it that was seen; the end of its lease in
-- µs, 15 s after the latest step. A row counts until then, and is kept also if it holds nothing. No value: nothing is
-- held. x = where in the argument the gateway (7) and the units that it asks for (7) stand, y = its sequence number.
-- Work: one read and at most one write, O(gateways).

local is_known = call("GET", key)
local gateway, asked = unpack(">I7I7", plan, x)
local rows, others, own, announced, highest, is_changed = "", 0, 0, 0, 0, false
local latest = now + 15000000
for at = 1, #(is_known or ""), 35 do
  local holder, units, last, seen, ends = unpack(">I7I7I7I7I7", is_known, at)
  -- A lease of a clock that was ahead is no longer than any other.
  is_changed = is_changed or ends > latest
  if holder == gateway and ends > now then
    own, announced, highest = units, last, seen
  elseif ends > now then
    others = others + units
    rows = rows .. pack(">I7I7I7I7I7", holder, units, last, seen, math.min(ends, latest))
  end
end
-- If the gateway announced after it asked, `own` already has the units that it asked for.
local fits = others + own - (y < announced and asked or 0) <= room
