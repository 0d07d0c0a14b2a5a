
local function release(key, amount, charge, room, x, y, value, current, used, ends, is_new, is_changed)
  if amount < 0 then
    local counts = charge[4] >= current
    return commit(key, counts and -amount or 0, room, x, y, 0, value, current, used, ends, is_new, is_changed)
  end
  if used > 0 and (not charge or charge[4] == current) then
    used, is_changed = math.max(used - amount, 0), true
  end
  return commit(key, 0, room, x, y, 0, value, current, used, ends, is_new, is_changed)
end
