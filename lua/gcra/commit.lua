
local is_spent = cost and cost > 0
if is_spent then
  if tat <= now then
    tat, begun, given = now, now, 0
  end
  tat = tat + cost
  if tat - now > 2 * reach then
    tat = now + 2 * reach
  end
end
local facts = pack(">I7I7I7I7", tat, begun, given, reach)
if is_spent or (cost and is_changed) then
  local ahead = tat > now and tat - now or 0
  call("SET", key, facts, "PX", string.format("%d", ahead / 1000 + 1001))
end
