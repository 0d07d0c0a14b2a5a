local day = 86400000000
if cost and cost > 0 and ends <= now and (value or CREATES_KEYS) then
  local is_further = y > 1 and length > 0 and now - ends < day
  length = is_further and math.max(math.min(length * y, math.max(day, x)), x) or x
  ends, is_changed = now + length, true
end
local facts = ends > 0 and pack(">I7I7", ends, length) or ""
if cost and is_changed then
  local lifetime = ends - now + (y > 1 and day or 0)
  call("SET", key, facts, "PX", string.format("%d", lifetime / 1000 + 1001))
end
