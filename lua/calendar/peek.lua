
-- calendar: units used in one window of a calendar, named by its first day.
--
-- Value: a string, number of the window (4 bytes) and used (7), big-endian. No value: nothing used.
-- Zones are not known here: the gateway sends three windows in a row. x = where in the argument: four edges
-- (7 bytes each, µs), then the windows' numbers (4 each); y is not used. Outside these windows, and where the
-- value is of a window after them, nothing is decided: the gateway asks once more with those around the
-- server's time. Work: one read and at most one write.

local edge, second, third, last, current, following, after = unpack(">I7I7I7I7I4I4I4", plan, x)
local ends, follows = second, third
if now >= third then
  current, following, ends, follows = after, nil, last, nil
elseif now >= second then
  current, following, ends, follows = following, after, third, last
end
local value = call("GET", key)
local is_known, is_changed, is_outside, old, used = value, false, now < edge or now >= last, current, 0
if value then
  old, used = unpack(">I4I7", value)
  if old < current then
    used, is_changed = 0, true
  elseif old > current and not following then
    is_outside = true
  elseif old == following then
    current, ends = following, follows
  elseif old > current then
    is_changed = true
  end
end
if is_outside then
  return OUTSIDE and error(OUTSIDE, 0) or pack(">I7B", now, 3)
end
local fits, is_new = used <= room, not value or old ~= current
