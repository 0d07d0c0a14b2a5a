
local function release(key, amount, charge, room, width, buckets, ...)
  local floor, max, sub = math.floor, math.max, string.sub
  local value = commit(key, 0, room, width, buckets, 0, ...)
  if value == "" then
    return value
  end
  local FIRST = 16
  local bytes, newest, total = unpack(">BI7I7", value)
  local form = bytes == 4 and BUCKET_OF_4 or BUCKET_OF_7
  local charged, older = charge and floor(charge[1] / width) or newest, 0
  for first = FIRST, #value, bytes + INDEX_BYTES do
    local low, units = unpack(form, value, first)
    local index = newest - (newest - low) % INDEXES
    if index == charged then
      local left = max(units - amount, 0)
      local before, after = sub(value, FIRST, first - 1), sub(value, first + bytes + INDEX_BYTES)
      local between = left > 0 and pack(form, low, left) or ""
      if left == 0 and index == newest then
        newest = older
      end
      if newest == 0 then
        call("DEL", key)
        return ""
      end
      total = max(total - units + left, 0)
      value = pack(">BI7I7", bytes, newest, total) .. before .. between .. after
      call("SET", key, value, "KEEPTTL")
      return value
    end
    older = index
  end
  return value
end
