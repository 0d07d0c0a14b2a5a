
-- The state is one table, which commit and release bring up to date.
local window, head = x, call("LINDEX", key, "-1")
local is_known, view = head, nil
if head then
  local sum, newest, oldest, units, limit, blocks = unpack(HEAD, head)
  local is_ahead = newest - now > window
  local at = is_ahead and now or max(newest, now)
  if at - newest >= window then
    view = { at = now, sum = 0, limit = limit, is_over = true }
  else
    local place, passed, rest = 1, 0, HEAD_BYTES + 1
    local index = ""
    if blocks > 1 then
      place, passed, rest = unpack(ENTRY, head, rest)
      place, rest = place + 1, rest + (blocks - 1) * ENTRY_BYTES
      index = sub(head, HEAD_BYTES + ENTRY_BYTES + 1, rest - 1)
    end
    view = {
      at = at,
      sum = sum,
      newest = newest,
      oldest = oldest,
      units = units,
      limit = limit,
      blocks = blocks,
      index = index,
      last = sub(head, rest),
      first = 1,
      place = place,
      passed = passed,
      is_changed = false,
    }
    if is_ahead then
      -- Entries from ahead become one of now.
      local more = sum
      local number, cut = advance(key, view, 1, place, passed, function(entry, units)
        if entry <= now then
          more = more - units
          return true
        end
      end)
      view.last = sub(block_of(key, view, number), 1, cut - 1) .. pack(ENTRY, now, more)
      view.blocks, view.index = number, sub(index, 1, (number - 1) * ENTRY_BYTES)
      view.newest, view.is_cut, view.is_changed = now, true, true
      if oldest > now then
        view.oldest, view.units = now, more
      end
    end
    if at - view.oldest >= window then
      forget_while(key, view, function(entry)
        return at - entry >= window
      end)
    end
  end
else
  view = { at = now, sum = 0, limit = 0, is_new = true }
end
local fits = view.sum <= room
