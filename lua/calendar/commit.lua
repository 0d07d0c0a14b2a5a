
local facts = value or ""
if cost and (cost > 0 or is_changed) then
  -- Counters saturate.
  used = math.min(used + cost, 4503599627370496)
  facts = used > 0 and pack(">I4I7", current, used) or ""
  if used == 0 then
    call("DEL", key)
  elseif is_new then
    -- A day longer: for gateways whose zone data say that the window ends later.
    call("SET", key, facts, "PX", string.format("%d", (ends - now) / 1000 + 86401001))
  else
    call("SET", key, facts, "KEEPTTL")
  end
end
