-- fixed-window: units used in one window, and that window's start.
--
-- Value: a string, start (7 bytes, µs) and used (7 bytes), big-endian. No value: nothing used.
-- The window's start is in the value, so no key name is ever built from a time.
-- x = window in µs. Work: one read and at most one write.

local function fixed_window_look(key, now, room, window)
  local start, used = now - now % window, 0
  local at, old, changed = now, nil, false
  local value = call("GET", key)
  if value then
    old, used = unpack(">I7I7", value)
    if old > now then
      if old - now <= window then
        at, start = old, old
      else
        changed = true
      end
    elseif old < start then
      used, changed = 0, true
    end
  end
  return used <= room, {
    stored = value, at = at, start = start, used = used, changed = changed, is_new = old ~= start,
  }
end

local function fixed_window_write(key, view, now, window)
  if view.used == 0 then
    call("DEL", key)
    return ""
  end
  local value = pack(">I7I7", view.start, view.used)
  if view.is_new then
    call("SET", key, value, "PX", lifetime(view.start + window - now))
  else
    call("SET", key, value, "KEEPTTL")
  end
  return value
end

local function fixed_window_commit(key, view, now, cost, window)
  if cost > 0 then
    view.used = min(view.used + cost, COUNT_MAX)
  elseif not view.changed then
    return view.stored or ""
  end
  return fixed_window_write(key, view, now, window)
end

local function fixed_window_release(key, view, now, amount, charged_at, _, window)
  if view.used > 0 and charged_at - charged_at % window == view.start then
    view.used = max(view.used - amount, 0)
    view.changed = true
  end
  return fixed_window_commit(key, view, now, 0, window)
end
