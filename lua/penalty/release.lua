
local function release(key, amount, charge, room, x, y, value, ends, length, is_changed)
  return commit(key, 0, room, x, y, 0, value, ends, length, is_changed)
end
