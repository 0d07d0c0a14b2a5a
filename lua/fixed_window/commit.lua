
local facts = value or ""
if cost and (cost > 0 or is_changed) then
  -- Counters saturate.
  used = math.min(used + cost, 4503599627370496)
  facts = used > 0 and pack(">I7I7", start, used) or ""
  if used == 0 then
    call("DEL", key)
  elseif is_new then
    call("SET", key, facts, "PX", string.format("%d", (start + x - y - now) / 1000 + 1001))
  else
    call("SET", key, facts, "KEEPTTL")
  end
end
