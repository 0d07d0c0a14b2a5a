
local is_spent = cost and cost > 0
if is_spent then
  if tat <= now then
    tat, begun, given = now, now, 0
  end
  tat = math.min(tat + cost, now + 2 * reach)
end
local facts = pack(">I7I7I7I7", tat, begun, given, reach)
if is_spent or (cost and is_changed) then
  call("SET", key, facts, "PX", string.format("%d", math.max(tat - now, 0) / 1000 + 1001))
end
