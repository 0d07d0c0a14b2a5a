
-- sliding-log: every spent cost with its time.
--
-- Value: a list, oldest first: an entry of one unit is its time in µs (7 bytes, big-endian), of
-- more units its time and those (7 and 7). The last element is no entry but the head: units of all
-- entries, time of the newest, time and units of the oldest, and the largest limit of those that have
-- written to the log since it was empty (7 bytes each; an older gateway leaves the last one out). No value: nothing used.
-- x = window in µs, y = limit.
-- Work: one read, and four writes if a cost is logged. Entries that have aged since the last step, or
-- have to until a larger cost fits, are read in chunks; where all are of one unit, their number says
-- what they sum up to, and O(log) of them are read.

local floor, min, max = math.floor, math.min, math.max
local HEAD, ENTRY = ">I7I7I7I7I7", ">I7I7"

local function entry_of(at, units)
  if units == 1 then
    return pack(">I7", at)
  end
  return pack(ENTRY, at, units)
end

local function entry_in(value)
  if #value == 7 then
    return unpack(">I7", value), 1
  end
  return unpack(ENTRY, value)
end

-- Calls `visit` with time and units of each entry from a number on, until it returns true. After
-- each chunk, `skip` is told the number of the next entry and returns where to go on.
local function walk(key, number, visit, skip)
  local chunk = 8
  while true do
    local values = call("LRANGE", key, number, number + chunk - 1)
    for position = 1, #values do
      local value = values[position]
      if #value > 14 or visit(entry_in(value)) then
        return
      end
    end
    if #values == 0 then
      error("a log without a head", 0)
    end
    number, chunk = skip(number + #values), min(chunk * 4, 512)
  end
end

-- Says whether the entries from a number on are of one unit each, given what they sum up to.
local function are_units(key, number, sum)
  return call("LLEN", key) - 1 - number == sum
end

-- Forgets the oldest entry for as long as `is_spent` says so of its time, its units and the sum, of
-- which so much is not in the list yet.
local function forget_while(key, view, unlisted, is_spent)
  if not is_spent(view.oldest, view.units, view.sum) then
    return
  end
  local sum, aged = view.sum - view.units, view.aged + 1
  view.oldest = nil
  walk(key, aged, function(at, units)
    if not is_spent(at, units, sum) then
      view.oldest, view.units = min(at, view.at), units
      return true
    end
    sum, aged = sum - units, aged + 1
  end, function(number)
    if are_units(key, number, sum - unlisted) then
      local low, high = number, number + sum - unlisted
      while low < high do
        local middle = floor((low + high) / 2)
        if is_spent(entry_in(call("LINDEX", key, middle)), 1, sum - (middle - number)) then
          low = middle + 1
        else
          high = middle
        end
      end
      sum, aged = sum - (low - number), low
    end
    return aged
  end)
  view.sum, view.aged = sum, aged
end

-- Brings the list to what the view shows, with one more entry if there is one.
local function write(view, key, window, entry)
  if view.sum == 0 then
    call("DEL", key)
    return
  end
  local head = pack(HEAD, view.sum, view.newest, view.oldest, view.units, view.limit)
  if view.is_over then
    -- Not deleted first: while its slot moves to another node, a script cannot make a key again.
    call("RPUSH", key, entry, head)
    call("LTRIM", key, "-2", "-1")
    entry, head = nil, nil
  elseif view.is_ahead then
    -- Entries from ahead become entries of now: all are written again, behind the old ones.
    local length = call("LLEN", key)
    for first = view.aged, length - 2, 256 do
      local values = call("LRANGE", key, first, min(first + 255, length - 2))
      for position = 1, #values do
        local at, units = entry_in(values[position])
        values[position] = entry_of(min(at, now), units)
      end
      call("RPUSH", key, unpack_list(values))
    end
    call("LTRIM", key, length, "-1")
  elseif view.is_kept then
    if view.aged > 0 then
      call("LTRIM", key, view.aged, "-1")
    end
    call("LSET", key, "-1", entry or head)
    if entry then
      call("RPUSH", key, head)
    end
    entry = nil
    head = nil
  end
  if entry then
    call("RPUSH", key, entry, head)
  elseif head then
    call("RPUSH", key, head)
  end
  call("PEXPIRE", key, string.format("%d", (view.newest + window - now) / 1000 + 1001))
end

-- Returns the sum, the time of the newest entry, and as one entry each those that have to age until
-- the sum is at most one target and then the other.
local function facts_of(view, key, first, room, limit)
  local sum = view.sum
  if sum == 0 then
    return ""
  end
  local facts = pack(ENTRY, sum, view.newest)
  local target, last = min(sum, limit) - 1, nil
  if room >= 0 and sum > room then
    target, last = max(target, room), min(target, room)
  end
  local together = 0
  local function visit(at, units)
    sum, together = sum - units, together + units
    while target and sum <= target do
      if together > 0 then
        facts = facts .. pack(ENTRY, min(at, view.at), together)
      end
      together = 0
      target, last = last, nil
    end
    return not target
  end
  if not visit(view.oldest, view.units) then
    walk(key, first + 1, visit, function(number)
      if are_units(key, number, sum) then
        local skipped = sum - target - 1
        number, sum, together = number + skipped, sum - skipped, together + skipped
      end
      return number
    end)
  end
  return facts
end
