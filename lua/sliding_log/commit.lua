
if cost then
  -- Counters saturate.
  local units = min(cost, 4503599627370496 - view.sum)
  if units > 0 then
    if view.sum == 0 then
      view.oldest, view.units, view.limit = view.at, units, 0
      view.blocks, view.index, view.last = 1, "", ""
      view.first, view.place, view.passed = 1, 1, 0
    end
    append(key, view, units)
    view.sum, view.newest, view.limit = view.sum + units, view.at, max(view.limit, y)
    if flags >= COUNTS_ALL then
      forget_while(key, view, function(_, oldest, sum)
        return sum - oldest > view.limit
      end)
    end
  end
  if units > 0 or view.is_changed or view.is_over then
    write(key, view, x)
  end
end
local facts = facts_of(key, view, room, y)
