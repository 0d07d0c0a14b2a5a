
-- gcra and leaky-bucket: the time when the bucket is full again (tat).
--
-- Value: a string, that time in µs (7 bytes, big-endian). No value: full.
-- cost = what the cost takes in µs, room = burst less cost in µs, x = furthest that tat may be
-- ahead (2 * burst), in µs. Work: one read and at most one write.

local function gcra()
  local function peek(view, key, room, ahead_max)
    local value = call("GET", key)
    if not value and not CREATES_KEYS then
      return nil
    end
    local ahead = value and unpack(">I7", value) - now or -now
    view.is_changed = ahead > ahead_max
    if ahead > ahead_max then
      ahead = ahead_max
    end
    view.tat = now + ahead
    if ahead < 0 then
      ahead = 0
    end
    return ahead <= room
  end

  local function commit(view, key, cost, _, ahead_max)
    local tat = view.tat
    if cost > 0 then
      tat = min((tat > now and tat or now) + cost, now + ahead_max)
    elseif not view.is_changed then
      return pack(">I7", tat)
    end
    local value = pack(">I7", tat)
    call("SET", key, value, "PX", lifetime(tat > now and tat - now or 0))
    return value
  end

  local function release(view, key, amount, charged_at, _, room, ahead_max)
    local back = amount - max(now - charged_at, 0)
    if view.tat > now and back > 0 then
      view.tat, view.is_changed = max(view.tat - back, now), true
    end
    return commit(view, key, 0, room, ahead_max)
  end

  local function show(view)
    return pack(">I7", view.tat)
  end

  return { peek = peek, commit = commit, release = release, show = show }
end
