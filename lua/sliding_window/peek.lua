
-- sliding-window: the window in equal buckets, of which the oldest is leaving.
--
-- Value: a string, big-endian: bytes per count (1 byte: 4 or 7), index of the newest bucket (7),
-- units of all buckets (7; means nothing where counts have 7 bytes), then the buckets that hold
-- units, oldest first: index modulo INDEXES (INDEX_BYTES: 1, or 2 of 128 and more buckets) and units
-- (4 or 7). No value: nothing used.
-- x = bucket in µs; y = buckets, and in steps of PHASE the phase in µs: the times here are later than the
-- server's by it, so that the partitions' buckets begin at different times.
-- Work: one read and at most one write; at most one bucket more than y says is looked at, mostly two.
--
-- The state is: the bucket to decide in; the value; where in it the first bucket that still counts begins
-- (beyond FIRST if some have gone); bytes per count; the newest bucket; the units of all that count; and
-- the units from far ahead, which count as spent now.

local FIRST = 16
local floor, width, buckets, shifted = math.floor, x, y, now
local value = call("GET", key)
if y >= PHASE then
  buckets, shifted = y % PHASE, now + floor(y / PHASE)
end
local is_known, index = value, floor(shifted / width)
local fits, first_at, bytes, newest, total, gathered = room >= 0, FIRST, 4, 0, 0, 0
repeat
  if not value then
    value = ""
    break
  end
  local low, units
  bytes, newest, total, low, units = unpack(FIRST_BUCKET, value)
  -- Counts of seven bytes are added up each time: where their sum passes 2^53, it is rounded.
  local wide_sum = bytes == 7 and function(from)
    local sum = 0
    for position = from, #value, INDEX_BYTES + 7 do
      sum = sum + unpack(">I7", value, position + INDEX_BYTES)
    end
    return sum
  end
  if wide_sum then
    units, total = unpack(">I7", value, FIRST + INDEX_BYTES), wide_sum(FIRST)
  end
  local at = newest * width
  if at < shifted then
    at = shifted
  elseif at - shifted > width * buckets then
    fits, gathered = total <= room, math.min(total, 4503599627370496)
    first_at, bytes, newest, total = #value + 1, 4, 0, 0
    break
  end

  index = floor(at / width)
  local previous, oldest = index - buckets, newest - (newest - low) % INDEXES
  while oldest < previous or (oldest == previous and number == DROPPED) do
    first_at, total = first_at + bytes + INDEX_BYTES, total - units
    if first_at > #value then
      break
    end
    low, units = unpack(bytes == 4 and BUCKET_OF_4 or BUCKET_OF_7, value, first_at)
    oldest = newest - (newest - low) % INDEXES
  end
  if first_at > #value then
    bytes, newest, total = 4, 0, 0
    break
  end
  local others = total - units
  if wide_sum then
    others = wide_sum(first_at + INDEX_BYTES + 7)
    total = others + units
  end

  if oldest == previous and number == WEIGHTED then
    -- floor(units * inside / width), by long division where the product passes 2^53: with limbs of k
    -- bits, 2^(k+1) * width <= 2^53.
    local inside = (index + 1) * width - at
    local product = units * inside
    if product <= 9007199254740992 then
      units = floor(product / width)
    else
      local _, bits = math.frexp(width)
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
      units = quotient
    end
  end
  fits = others + units <= room
until true
