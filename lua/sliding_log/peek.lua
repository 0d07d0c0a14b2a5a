
-- Found is one table, which commit and release bring up to date.
local window, head = x, call("LINDEX", key, "-1")
local is_known, view = head, nil
if head then
  if #head < 35 then
    head = head .. pack(">I7", 0)
  end
  local sum, newest, oldest, units, limit = unpack(HEAD, head)
  local is_ahead = newest - now > window
  if is_ahead then
    newest = now
  end
  local at = newest > now and newest or now
  if at - newest >= window then
    view = { at = now, sum = 0, aged = 0, newest = 0, limit = limit, is_over = true }
  else
    view = {
      at = at,
      sum = sum,
      aged = 0,
      newest = newest,
      oldest = min(oldest, at),
      units = units,
      limit = limit,
      is_kept = true,
      is_ahead = is_ahead,
    }
    if at - oldest >= window then
      forget_while(key, view, 0, function(entry)
        return at - entry >= window
      end)
    end
  end
else
  view = { at = now, sum = 0, aged = 0, newest = 0, limit = 0 }
end
local fits = view.sum <= room
