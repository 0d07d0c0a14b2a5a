
local FIRST, COUNT_MAX = 16, 4503599627370496
local facts = value
if cost and gathered + cost > 0 then
  cost = gathered + cost
  local units, last = cost, #value
  if newest == index then
    units = unpack(bytes == 4 and ">I4" or ">I7", value, last + 1 - bytes) + cost
    last = last - bytes - INDEX_BYTES
  end
  -- Counters saturate.
  if units > COUNT_MAX then
    units = COUNT_MAX
  end
  local others = string.sub(value, first_at, last)
  if bytes == 4 and units > 4294967295 then
    local wide = {}
    for position = 1, #others, INDEX_BYTES + 4 do
      wide[#wide + 1] = pack(BUCKET_OF_7, unpack(BUCKET_OF_4, others, position))
    end
    bytes, others = 7, table.concat(wide)
  end
  local form = bytes == 4 and VALUE_OF_4 or VALUE_OF_7
  facts = pack(form, bytes, index, total + cost, others, index % INDEXES, units)
  if newest == index then
    call("SET", key, facts, "KEEPTTL")
  else
    local buckets = y % PHASE
    local us = (index + buckets + 1) * x - (y - buckets) / PHASE - now
    call("SET", key, facts, "PX", string.format("%d", us / 1000 + 1001))
  end
elseif cost and first_at > FIRST and first_at > #value then
  call("DEL", key)
  facts = ""
elseif cost and first_at > FIRST then
  facts = pack(">BI7I7c0", bytes, newest, math.min(total, COUNT_MAX), string.sub(value, first_at))
  call("SET", key, facts, "KEEPTTL")
end
