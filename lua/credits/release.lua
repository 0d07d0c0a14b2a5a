
local function release(key, amount, charge, room, x, y, balance)
  if not CREATES_KEYS and not call("GET", key) then
    error("OOM there is no memory for a balance", 0)
  end
  return commit(key, -amount, room, x, y, 0, balance)
end
