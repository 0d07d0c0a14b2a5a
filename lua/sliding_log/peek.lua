
-- Found is one table, which commit and release bring up to date.
local window, head = x, call("LINDEX", key, "-1")
local is_known, view = head, nil
if head then
  local sum, newest, oldest, units, limit = unpack(HEAD, head)
  local is_ahead = newest - now > window
  local at = is_ahead and now or max(newest, now)
  if at - newest >= window then
    view = { at = now, sum = 0, blocks = 0, index = "", limit = limit, is_over = true }
  else
    view = {
      at = at,
      sum = sum,
      blocks = max((#head - 35) / ENTRY_BYTES, 1),
      index = "",
      newest = newest,
      oldest = oldest,
      units = units,
      limit = limit,
      first = 1,
      place = 1,
      passed = 0,
    }
    if view.blocks > 1 then
      local skipped
      skipped, view.passed = unpack(ENTRY, head, 36)
      view.place, view.index = skipped + 1, sub(head, 50)
    end
    if is_ahead then
      -- Entries from ahead become one of now.
      local rest = sum
      local number, place = advance(key, view, 1, view.place, view.passed, function(entry, more)
        if entry <= now then
          rest = rest - more
          return true
        end
      end)
      local kept = sub(block_of(key, view, number), 1, place - 1)
      view.last, view.blocks = kept .. pack(ENTRY, now, rest), number
      view.index = sub(view.index, 1, (number - 1) * ENTRY_BYTES)
      view.newest, view.is_cut, view.is_changed = now, true, true
      if oldest > now then
        view.oldest, view.units = now, rest
      end
    end
    if at - view.oldest >= window then
      forget_while(key, view, function(entry)
        return at - entry >= window
      end)
    end
  end
else
  view = { at = now, sum = 0, blocks = 0, index = "", limit = 0, is_new = true }
end
local fits = view.sum <= room
