
local function release(key, amount, charge, room, x, y, value, start, used, is_new, is_changed)
  if used > 0 and (not charge or charge[1] - charge[1] % x == start) then
    used, is_changed = math.max(used - amount, 0), true
  end
  return commit(key, 0, room, x, y, 0, value, start, used, is_new, is_changed)
end
