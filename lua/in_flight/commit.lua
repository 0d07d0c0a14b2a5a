local is_asked = cost and cost > 0 and y >= announced
if is_asked then
  own, highest = own + cost, math.max(highest, y)
end
local row = pack(">I7I7I7I7I7", gateway, own, announced, highest, now + 15000000)
if is_asked or (cost and is_changed) then
  call("SET", key, rows .. row, "PX", "16001")
end
local facts = pack(">I7", others + own) .. (cost and "" or rows .. row)
