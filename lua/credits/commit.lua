local is_spent = cost and cost ~= 0
if is_spent then
  -- Balances saturate.
  balance = math.max(-4503599627370496, math.min(balance - cost, 4503599627370496))
end
local facts = balance ~= x and pack(">i8", balance) or ""
if is_spent and balance == x then
  call("DEL", key)
elseif is_spent then
  call("SET", key, facts)
end
