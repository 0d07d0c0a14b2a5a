
local function release(key, amount, at, _, room, x, y, tat, is_changed)
  local back = amount - math.max(now - at, 0)
  if tat > now and back > 0 then
    tat, is_changed = math.max(tat - back, now), true
  end
  return commit(key, 0, room, x, y, 0, tat, is_changed)
end
