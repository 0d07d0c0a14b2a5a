
-- Peeks and commits with the algorithm that a number names. `fixed_window` and the others make the
-- functions of an algorithm when they are first needed. A state is a list of at most seven values.

local MAKERS =
  { fixed_window, sliding_window, sliding_window, sliding_window, sliding_log, gcra, calendar, fixed_window,
    long_window, long_window, long_window, credits, penalty, in_flight }
local peeks, commits, releases = {}, {}, {}

local function peek(key, room, x, y, number, plan)
  if not peeks[number] then
    local make = MAKERS[number] or error("a check without an algorithm", 0)
    peeks[number], commits[number], releases[number] = make()
  end
  return peeks[number](key, room, x, y, number, plan)
end

local function commit(key, cost, room, x, y, flags, a, b, c, d, e, f, g, number)
  return commits[number](key, cost, room, x, y, flags, a, b, c, d, e, f, g)
end
