
local function release(key, amount, charge, room, x, y, value, start, used, is_new, is_changed)
  if amount < 0 then
    local counts = charge[1] >= start
    return commit(key, counts and -amount or 0, room, x, y, 0, value, start, used, is_new, is_changed)
  end
  -- If windows begin with their first unit, a charge's time is the start of its window, which no other shares.
  local is_of_this = not charge or charge[1] == start or charge[1] - charge[1] % x == start
  if used > 0 and is_of_this then
    used, is_changed = math.max(used - amount, 0), true
  end
  return commit(key, 0, room, x, y, 0, value, start, used, is_new, is_changed)
end
