
local first_entry = view.aged
if cost then
  -- Counters saturate.
  local units, entry = min(cost, 4503599627370496 - view.sum), nil
  local is_changed = view.is_over or view.is_ahead or view.aged > 0
  if units > 0 then
    view.sum, view.newest, view.limit = view.sum + units, view.at, max(view.limit, y)
    if view.sum == units then
      view.oldest, view.units, view.limit = view.at, units, y
    elseif flags >= COUNTS_ALL then
      forget_while(key, view, units, function(_, oldest, sum)
        return sum - oldest > view.limit
      end)
      if not view.oldest then
        view.oldest, view.units = view.at, units
      end
    end
    entry, is_changed = entry_of(view.at, units), true
  end
  if is_changed then
    write(view, key, x, entry)
    first_entry = 0
  end
end
local facts = facts_of(view, key, first_entry, room, y)
