
local function release(key, amount, charge, room, window, _, view)
  local charged_at, charged = unpack_list(charge)
  if view.is_over or view.is_ahead or view.aged > 0 then
    write(view, key, window)
  end
  if view.sum > 0 and charged_at >= view.oldest then
    -- What still stands of a charge is its entry: time and units find it, from the newest on.
    local entry, is_found = entry_of(charged_at, charged), false
    amount = min(amount, charged)
    if amount == charged then
      is_found = call("LREM", key, "-1", entry) == 1
    else
      local number = call("LPOS", key, entry, "RANK", "-1")
      is_found = number and call("LSET", key, number, entry_of(charged_at, charged - amount))
    end
    if is_found then
      view.sum = view.sum - amount
      if view.sum == 0 then
        call("DEL", key)
      else
        view.oldest, view.units = entry_in(call("LINDEX", key, "0"))
        view.newest = entry_in(call("LINDEX", key, "-2"))
        call("LSET", key, "-1", pack(HEAD, view.sum, view.newest, view.oldest, view.units, view.limit))
      end
    end
  end
  return facts_of(view, key, 0, room, room)
end
