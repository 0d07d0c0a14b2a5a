
-- fixed-window: units used in one window, and that window's start.
--
-- Value: a string, start (7 bytes, µs) and used (7), big-endian. No value: nothing used.
-- The window's start is in the value, so no key name is ever built from a time.
-- x = window in µs, y = phase in µs: the times here are later than the server's by it, so that the
-- partitions' windows begin at different times. With algorithm 8, a window begins with its first unit.
-- Work: one read and at most one write.

local shifted, value = now + y, call("GET", key)
local is_known, is_changed, start, old, used = value, false, shifted - shifted % x, 0, 0
if number == 8 then
  start = now
end
if value then
  old, used = unpack(">I7I7", value)
  if number == 8 and old <= now and now - old < x then
    start = old
  end
  if old > shifted and old - shifted <= x then
    start = old
  elseif old > shifted then
    is_changed = true
  elseif old < start then
    used, is_changed = 0, true
  end
end
local fits, is_new = used <= room, old ~= start
