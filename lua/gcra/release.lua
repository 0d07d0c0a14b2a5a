
local function release(key, amount, charge, room, x, y, tat, begun, given, reach, is_changed)
  local charged_at, _, debt, given_then = unpack_list(charge or { now, 0, 0, given })
  if charged_at >= begun and tat > now then
    -- `busy` is how long the bucket would have been busy without the charge.
    local busy = math.max(debt - (given - given_then) % 4503599627370496, 0)
    local served = math.max(now - charged_at - busy, 0)
    local back = math.min(math.max(amount - served, 0), tat - now)
    if back > 0 then
      tat, given, is_changed = tat - back, (given + back) % 4503599627370496, true
    end
  end
  return commit(key, 0, room, x, y, 0, tat, begun, given, reach, is_changed)
end
