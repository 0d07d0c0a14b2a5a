
-- Counts units in the bucket of an earlier time, one of `buckets`. Those of a later bucket than the value has are
-- appended to it; otherwise the value is put together again.
local function spend_then(key, amount, index, room, width, y, value)
  local FIRST, COUNT_MAX = 16, 4503599627370496
  local bytes, newest, total = 4, 0, 0
  if value ~= "" then
    bytes, newest, total = unpack(">BI7I7", value)
  end
  if index >= newest then
    return commit(key, amount, room, width, y, 0, index, value, FIRST, bytes, newest, total, 0)
  end
  local form, widest, counts, is_counted = bytes == 4 and BUCKET_OF_4 or BUCKET_OF_7, 0, {}, false
  local function add(index, units)
    units = math.min(units, COUNT_MAX)
    widest = math.max(widest, units)
    counts[#counts + 1] = { index % INDEXES, units }
  end
  for first = FIRST, #value, bytes + INDEX_BYTES do
    local low, units = unpack(form, value, first)
    local other = newest - (newest - low) % INDEXES
    if other > index and not is_counted then
      add(index, amount)
      is_counted = true
    end
    add(other, other == index and units + amount or units)
    is_counted = is_counted or other == index
  end
  if widest > 4294967295 then
    bytes = 7
  end
  form = bytes == 4 and BUCKET_OF_4 or BUCKET_OF_7
  for place, bucket in ipairs(counts) do
    counts[place] = pack(form, bucket[1], bucket[2])
  end
  value = pack(">BI7I7", bytes, newest, math.min(total + amount, COUNT_MAX)) .. table.concat(counts)
  call("SET", key, value, "KEEPTTL")
  return value
end

local function release(key, amount, charge, room, width, buckets, index, ...)
  local floor, max, sub = math.floor, math.max, string.sub
  local value = commit(key, 0, room, width, buckets, 0, index, ...)
  if amount < 0 then
    local then_index = math.min(floor(charge[1] / width), index)
    local is_gone = then_index < index - buckets % PHASE
    return is_gone and value or spend_then(key, -amount, then_index, room, width, buckets, value)
  end
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
