-- sliding-window: the window in equal buckets, of which the oldest is leaving.
--
-- Value: a string, big-endian: bytes per count (1 byte: 4 or 7), index of the newest bucket (7),
-- units of all buckets (7), then the buckets that hold units, oldest first: index modulo 256 (1)
-- and units (4 or 7). No value: nothing used.
-- x = bucket in µs, y = buckets, algorithm = WEIGHTED, WHOLE or DROPPED.
-- Work: one read and at most one write; at most y + 1 buckets are looked at, mostly two.

-- Returns floor(units * inside / width), by long division where the product passes 2^53.
local function part(units, inside, width)
  if units * inside <= 9007199254740992 then
    return floor(units * inside / width)
  end
  -- Limbs of k bits, with 2^(k+1) * width <= 2^53.
  local _, bits = frexp(width)
  local limb, place = 2 ^ (52 - bits), 1
  while place * limb <= units do
    place = place * limb
  end
  local quotient, rest = 0, 0
  while place >= 1 do
    local digit = floor(units / place)
    units = units - digit * place
    local current = rest * limb + digit * inside
    quotient = quotient * limb + floor(current / width)
    rest = current % width
    place = place / limb
  end
  return quotient
end

-- Adds up the buckets from a position on; where the sum passes 2^53 so does the result.
local function sum_from(value, first, bytes)
  local form, sum = bytes == 4 and ">I4" or ">I7", 0
  for position = first, #value, bytes + 1 do
    sum = sum + unpack(form, value, position + 1)
  end
  return sum
end

-- Returns what a window without a value shows.
local function sliding_window_empty(now, changed)
  return { at = now, value = "", first = 1, bytes = 4, newest = 0, total = 0, changed = changed }
end

local function sliding_window_look(key, now, room, width, buckets, algorithm)
  local value = call("GET", key)
  if not value then
    return room >= 0, sliding_window_empty(now, false)
  end
  local bytes, newest, total, low, units = unpack(byte(value) == 4 and ">BI7I7BI4" or ">BI7I7BI7", value)
  local at = max(newest * width, now)
  if at - now > width * buckets then
    -- Everything counts as spent now.
    if bytes == 7 then
      total = min(sum_from(value, 16, bytes), COUNT_MAX)
    end
    local view = sliding_window_empty(now, true)
    view.stored, view.gathered = value, total
    return total <= room, view
  end

  local index = floor(at / width)
  local leaving = index - buckets
  local first, age = 16, (newest - low) % 256
  while newest - age < leaving or (newest - age == leaving and algorithm == DROPPED) do
    first, total = first + bytes + 1, total - units
    if first > #value then
      local view = sliding_window_empty(now, true)
      view.stored = value
      return room >= 0, view
    end
    low, units = unpack(bytes == 4 and ">BI4" or ">BI7", value, first)
    age = (newest - low) % 256
  end
  if bytes == 7 then
    total = sum_from(value, first, bytes)
  end

  local used = total
  if newest - age == leaving and algorithm == WEIGHTED then
    local rest = total - units
    if bytes == 7 then
      rest = sum_from(value, first + 8, bytes)
    end
    used = rest + part(units, (index + 1) * width - at, width)
  end
  return used <= room, {
    at = at, stored = value, value = value, first = first, bytes = bytes, newest = newest, total = total,
    changed = first > 16,
  }
end

-- Writes the four bytes of every count as seven.
local function widened(buckets)
  local wide = {}
  for position = 1, #buckets, 5 do
    wide[#wide + 1] = pack(">BI7", unpack(">BI4", buckets, position))
  end
  return table.concat(wide)
end

local function sliding_window_commit(key, view, now, cost, width, buckets)
  local index = floor(view.at / width)
  if view.gathered then
    cost = min(view.gathered + cost, COUNT_MAX)
  end
  if cost == 0 and not view.changed then
    return view.value
  end
  local value, bytes, newest, total = view.value, view.bytes, view.newest, view.total
  local is_new = true
  if cost == 0 then
    if value == "" then
      call("DEL", key)
      return ""
    end
    is_new = false
    value = pack(">BI7I7c0", bytes, newest, total, sub(value, view.first))
  else
    local units, last = cost, #value
    if value ~= "" and newest == index then
      units = min(unpack(bytes == 4 and ">I4" or ">I7", value, last + 1 - bytes) + cost, COUNT_MAX)
      last = last - bytes - 1
      is_new = false
    end
    local others = sub(value, view.first, last)
    if units > 4294967295 and bytes == 4 then
      bytes, others = 7, widened(others)
    end
    total = min(total + cost, COUNT_MAX)
    value = pack(bytes == 4 and ">BI7I7c0BI4" or ">BI7I7c0BI7", bytes, index, total, others, index % 256, units)
    newest = index
  end
  if is_new then
    call("SET", key, value, "PX", lifetime((newest + buckets + 1) * width - now))
  else
    call("SET", key, value, "KEEPTTL")
  end
  return value
end

local function sliding_window_release(key, view, now, amount, charged_at, _, width, buckets)
  local value = sliding_window_commit(key, view, now, 0, width, buckets)
  if value == "" then
    return value
  end
  local bytes, newest, total = unpack(">BI7I7", value)
  local form = bytes == 4 and ">BI4" or ">BI7"
  local charged, older = floor(charged_at / width), 0
  for first = 16, #value, bytes + 1 do
    local low, units = unpack(form, value, first)
    local index = newest - (newest - low) % 256
    if index == charged then
      local left = max(units - amount, 0)
      local before, after = sub(value, 16, first - 1), sub(value, first + bytes + 1)
      local between = left > 0 and pack(form, low, left) or ""
      if left == 0 and index == newest then
        newest = older
      end
      if newest == 0 then
        call("DEL", key)
        return ""
      end
      value = pack(">BI7I7", bytes, newest, max(total - units + left, 0)) .. before .. between .. after
      call("SET", key, value, "KEEPTTL")
      return value
    end
    older = index
  end
  return value
end
