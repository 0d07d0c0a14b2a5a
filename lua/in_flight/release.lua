
-- Notes how many units a gateway holds. The facts say whether it must announce that again (1 byte, 1 if this is older
-- than what was seen), and how many units all gateways hold (7).
local function release(key, amount, charge, room, x, y, rows, gateway, others, own, announced, highest)
  if y < highest then
    return pack(">BI7", 1, others + own)
  end
  local row = pack(">I7I7I7I7I7", gateway, amount, y, y, now + 15000000)
  call("SET", key, rows .. row, "PX", "16001")
  return pack(">BI7", 0, others + amount)
end
