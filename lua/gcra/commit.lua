
local is_spent = cost and cost > 0
if is_spent then
  tat = math.min(math.max(tat, now) + cost, now + x)
end
local facts = pack(">I7", tat)
if is_spent or (cost and is_changed) then
  call("SET", key, facts, "PX", string.format("%d", math.max(tat - now, 0) / 1000 + 1001))
end
