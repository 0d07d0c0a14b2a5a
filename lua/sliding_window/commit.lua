
local FIRST, COUNT_MAX = 16, 4503599627370496
local facts = value
if cost and gathered + cost > 0 then
  cost = gathered + cost
  local units, last = cost, #value
  if newest == index then
    units = unpack(bytes == 4 and ">I4" or ">I7", value, last + 1 - bytes) + cost
    last = last - bytes - 1
  end
  -- Counters saturate.
  if units > COUNT_MAX then
    units = COUNT_MAX
  end
  local others = string.sub(value, first_at, last)
  if bytes == 4 and units > 4294967295 then
    local wide = {}
    for position = 1, #others, 5 do
      wide[#wide + 1] = pack(">BI7", unpack(">BI4", others, position))
    end
    bytes, others = 7, table.concat(wide)
  end
  local form = bytes == 4 and ">BI7I7c0BI4" or ">BI7I7c0BI7"
  facts = pack(form, bytes, index, total + cost, others, index % 256, units)
  if newest == index then
    call("SET", key, facts, "KEEPTTL")
  else
    local buckets = y % 128
    local us = (index + buckets + 1) * x - (y - buckets) / 128 - now
    call("SET", key, facts, "PX", string.format("%d", us / 1000 + 1001))
  end
elseif cost and first_at > FIRST and first_at > #value then
  call("DEL", key)
  facts = ""
elseif cost and first_at > FIRST then
  facts = pack(">BI7I7c0", bytes, newest, math.min(total, COUNT_MAX), string.sub(value, first_at))
  call("SET", key, facts, "KEEPTTL")
end
