-- gcra and leaky-bucket: the time when the bucket is full again (tat).
--
-- Value: that time in µs, in decimal digits. No value: full.
-- cost = what the cost takes in µs, room = burst less cost in µs, x = furthest that tat may be
-- ahead (2 * burst), in µs.
-- Work: one read and at most one write.

local function gcra_look(key, now, room, ahead_max)
  local value = call("GET", key)
  local tat = value and tonumber(value) or 0
  local changed = tat > now + ahead_max
  if changed then
    tat = now + ahead_max
  end
  return max(tat - now, 0) <= room, { at = now, tat = tat, changed = changed }
end

local function gcra_commit(key, view, now, cost, ahead_max)
  local tat = view.tat
  if cost > 0 then
    tat = min(max(tat, now) + cost, now + ahead_max)
  end
  if cost > 0 or view.changed then
    call("SET", key, tat, "PX", lifetime(max(tat - now, 0)))
  end
  return pack(">I7", tat)
end

local function gcra_release(key, view, now, amount, charged_at, _, ahead_max)
  local back = amount - max(now - charged_at, 0)
  if view.tat > now and back > 0 then
    view.tat, view.changed = max(view.tat - back, now), true
  end
  return gcra_commit(key, view, now, 0, ahead_max)
end
