
-- sliding-window: the window in equal buckets, of which the oldest is leaving.
--
-- Value: a string, big-endian: bytes per count (1 byte: 4 or 7), index of the newest bucket (7),
-- units of all buckets (7; means nothing where counts have 7 bytes), then the buckets that hold
-- units, oldest first: index modulo 256 (1) and units (4 or 7). No value: nothing used.
-- x = bucket in µs, y = buckets.
-- Work: one read and at most one write; at most y + 1 buckets are looked at, mostly two.

local function sliding_window(leaves)
  -- Returns floor(units * inside / width), by long division where the product passes 2^53.
  local function part(units, inside, width)
    local product = units * inside
    if product <= 9007199254740992 then
      return floor(product / width)
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

  -- Adds up wide buckets from a position on; where the sum passes 2^53, so does the result.
  local function wide_sum(value, first)
    local sum = 0
    for position = first, #value, 8 do
      sum = sum + unpack(">I7", value, position + 1)
    end
    return sum
  end

  -- Makes the view that of nothing used.
  local function clear(view, is_changed)
    view.at, view.buckets, view.first, view.bytes = now, "", 1, 4
    view.newest, view.total, view.is_changed = 0, 0, is_changed
  end

  local function peek(view, key, room, width, buckets)
    local value = call("GET", key)
    view.value, view.gathered = value or "", 0
    if not value and not CREATES_KEYS then
      return nil
    elseif not value then
      clear(view, false)
      return room >= 0
    end
    local bytes, newest, total, low, units = unpack(">BI7I7BI4", value)
    if bytes == 7 then
      units, total = unpack(">I7", value, 17), wide_sum(value, 16)
    end
    local at = newest * width
    if at < now then
      at = now
    elseif at - now > width * buckets then
      -- Everything counts as spent now.
      clear(view, true)
      view.gathered = min(total, COUNT_MAX)
      return total <= room
    end

    local index = floor(at / width)
    local leaving = index - buckets
    local first, oldest = 16, newest - (newest - low) % 256
    while oldest < leaving or (oldest == leaving and leaves == DROPPED) do
      first, total = first + bytes + 1, total - units
      if first > #value then
        clear(view, true)
        return room >= 0
      end
      low, units = unpack(bytes == 4 and ">BI4" or ">BI7", value, first)
      oldest = newest - (newest - low) % 256
    end

    local others = total - units
    if bytes == 7 then
      -- The sum of all may have been rounded.
      others = wide_sum(value, first + 8)
      total = others + units
    end
    view.at, view.buckets, view.first, view.bytes = at, value, first, bytes
    view.newest, view.total, view.is_changed = newest, total, first > 16
    if oldest == leaving and leaves == WEIGHTED then
      return others + part(units, (index + 1) * width - at, width) <= room
    end
    return total <= room
  end

  -- Writes the four bytes of every count as seven.
  local function widened(buckets)
    local wide = {}
    for position = 1, #buckets, 5 do
      wide[#wide + 1] = pack(">BI7", unpack(">BI4", buckets, position))
    end
    return table.concat(wide)
  end

  -- Returns the value of a view with so many more units in the bucket of its time.
  local function value_with(view, cost, index)
    local buckets, bytes, units = view.buckets, view.bytes, min(cost, COUNT_MAX)
    local last = #buckets
    if view.newest == index then
      units = unpack(bytes == 4 and ">I4" or ">I7", buckets, last + 1 - bytes) + cost
      last = last - bytes - 1
      if units > COUNT_MAX then
        units = COUNT_MAX
      end
    end
    local others = sub(buckets, view.first, last)
    if bytes == 4 and units > 4294967295 then
      bytes, others = 7, widened(others)
    end
    local form = bytes == 4 and ">BI7I7c0BI4" or ">BI7I7c0BI7"
    return pack(form, bytes, index, view.total + cost, others, index % 256, units)
  end

  local function commit(view, key, cost, _, width, buckets)
    cost = view.gathered + cost
    if cost > 0 then
      local index = floor(view.at / width)
      local value = value_with(view, cost, index)
      if view.newest == index then
        call("SET", key, value, "KEEPTTL")
      else
        call("SET", key, value, "PX", lifetime((index + buckets + 1) * width - now))
      end
      return value
    elseif not view.is_changed then
      return view.value
    elseif view.buckets == "" then
      call("DEL", key)
      return ""
    end
    local total = min(view.total, COUNT_MAX)
    local value = pack(">BI7I7c0", view.bytes, view.newest, total, sub(view.buckets, view.first))
    call("SET", key, value, "KEEPTTL")
    return value
  end

  local function release(view, key, amount, charged_at, _, room, width, buckets)
    local value = commit(view, key, 0, room, width, buckets)
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

  local function show(view)
    return view.value
  end

  return { peek = peek, commit = commit, release = release, show = show }
end
