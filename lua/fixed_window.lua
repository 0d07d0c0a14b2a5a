
-- fixed-window: units used in one window, and that window's start.
--
-- Value: a string, start (7 bytes, µs) and used (7), big-endian. No value: nothing used.
-- The window's start is in the value, so no key name is ever built from a time.
-- x = window in µs. Work: one read and at most one write.

local function fixed_window()
  local function peek(view, key, room, window)
    local start, used, old = now - now % window, 0, nil
    local value = call("GET", key)
    view.at, view.is_changed = now, false
    if not value and not CREATES_KEYS then
      return nil
    elseif value then
      old, used = unpack(">I7I7", value)
      if old > now and old - now <= window then
        view.at, start = old, old
      elseif old > now then
        view.is_changed = true
      elseif old < start then
        used, view.is_changed = 0, true
      end
    end
    view.value, view.start, view.used, view.is_new = value or "", start, used, old ~= start
    return used <= room
  end

  local function commit(view, key, cost, _, window)
    local used = view.used
    if cost > 0 then
      used = min(used + cost, COUNT_MAX)
    elseif not view.is_changed then
      return view.value
    end
    if used == 0 then
      call("DEL", key)
      return ""
    end
    local value = pack(">I7I7", view.start, used)
    if view.is_new then
      call("SET", key, value, "PX", lifetime(view.start + window - now))
    else
      call("SET", key, value, "KEEPTTL")
    end
    return value
  end

  local function release(view, key, amount, charged_at, _, room, window)
    if view.used > 0 and charged_at - charged_at % window == view.start then
      view.used, view.is_changed = max(view.used - amount, 0), true
    end
    return commit(view, key, 0, room, window)
  end

  local function show(view)
    return view.value
  end

  return { peek = peek, commit = commit, release = release, show = show }
end
