
-- sliding-log: every spent cost with its time.
--
-- Value: a list. All elements but the last are blocks, oldest first, of at most 583 entries, oldest
-- first: an entry is its time in µs and its units (7 bytes each, big-endian). The last element is the
-- head: units of all entries, time of the newest, time and units of the oldest, and the largest limit of
-- those that have written to the log since it was empty (7 bytes each). If there are several blocks,
-- the head goes on with how many bytes of the first one count no more, and their units, and with the
-- index: for each block but the last a time, which is that of its newest entry or later, but not later
-- than the next block's, and its units (7 bytes each). No value: nothing used.
-- x = window in µs, y = limit.
-- Work: one block is read and written if a cost is logged. What has aged since the last step, or has to
-- until a larger cost fits, and what comes back, is found by the index, and then in one block.

local min, max, sub = math.min, math.max, string.sub
local HEAD, ENTRY, ENTRY_BYTES, BLOCK_BYTES = ">I7I7I7I7I7", ">I7I7", 14, 583 * 14

local function block_of(key, view, number)
  if number == view.blocks and view.last then
    return view.last
  end
  local block = call("LINDEX", key, number - 1)
  if not block then
    error("a log without a block", 0)
  end
  if number == view.blocks then
    view.last = block
  end
  return block
end

-- Passes entries, from a place in a block on whose units before it are `passed`, for as long as `passes`
-- says so of time and units of an entry, or of all that is left of a block. Returns where the first is
-- that it does not pass, and its time and units.
local function advance(key, view, number, place, passed, passes)
  while number <= view.blocks do
    local is_whole = false
    if number < view.blocks then
      local newest, units = unpack(ENTRY, view.index, (number - 1) * ENTRY_BYTES + 1)
      is_whole = passes(newest, units - passed)
    end
    if not is_whole then
      local block = block_of(key, view, number)
      while place < #block do
        local at, units = unpack(ENTRY, block, place)
        if not passes(at, units) then
          return number, place, passed, at, units
        end
        place, passed = place + ENTRY_BYTES, passed + units
      end
    end
    number, place, passed = number + 1, 1, 0
  end
  error("a log without an entry that counts", 0)
end

-- Forgets the oldest entry for as long as `is_spent` says so of its time, its units and the sum.
local function forget_while(key, view, is_spent)
  local sum = view.sum
  view.first, view.place, view.passed, view.oldest, view.units = advance(
    key,
    view,
    view.first,
    view.place,
    view.passed,
    function(at, units)
      if is_spent(at, units, sum) then
        sum = sum - units
        return true
      end
    end
  )
  view.sum, view.is_changed = sum, true
end

-- Brings the list to what the view shows, which then begins with its first block.
local function write(key, view, window)
  if view.sum == 0 then
    call("DEL", key)
    return
  end
  if view.first == view.blocks and view.place > 1 then
    view.last = sub(block_of(key, view, view.blocks), view.place)
    view.place, view.passed, view.is_last_changed = 1, 0, true
  end
  view.index = sub(view.index, (view.first - 1) * ENTRY_BYTES + 1)
  local head = pack(HEAD, view.sum, view.newest, view.oldest, view.units, view.limit)
  if view.first < view.blocks then
    head = head .. pack(ENTRY, view.place - 1, view.passed) .. view.index
  end
  if view.is_over then
    -- Not deleted first: while its slot moves to another node, a script cannot make a key again.
    call("RPUSH", key, view.last, head)
    call("LTRIM", key, "-2", "-1")
  elseif view.is_cut then
    call("LTRIM", key, "0", view.blocks - 1)
    call("LSET", key, "-1", view.last)
    call("RPUSH", key, head)
  elseif view.is_new then
    call("RPUSH", key, view.last, head)
  elseif view.is_opened then
    call("LSET", key, "-1", view.last)
    call("RPUSH", key, head)
  else
    if view.is_last_changed then
      call("LSET", key, "-2", view.last)
    end
    call("LSET", key, "-1", head)
  end
  if view.first > 1 then
    call("LTRIM", key, view.first - 1, "-1")
    view.blocks, view.first = view.blocks - view.first + 1, 1
  end
  view.is_over, view.is_cut, view.is_new, view.is_opened = nil, nil, nil, nil
  view.is_changed, view.is_last_changed = nil, nil
  call("PEXPIRE", key, string.format("%d", (view.newest + window - now) / 1000 + 1001))
end

-- Appends an entry of the view's time to its last block, or to a new one.
local function append(key, view, units)
  local last = ""
  if view.blocks == 0 then
    view.blocks = 1
  else
    last = block_of(key, view, view.blocks)
    if view.first == view.blocks then
      last, view.place, view.passed = sub(last, view.place), 1, 0
    end
    if #last >= BLOCK_BYTES and not view.is_cut then
      local together = 0
      for place = 1, #last, ENTRY_BYTES do
        local _, entry = unpack(ENTRY, last, place)
        together = together + entry
      end
      view.index = view.index .. pack(ENTRY, view.newest, together)
      view.blocks, view.is_opened, last = view.blocks + 1, true, ""
    end
  end
  view.last, view.is_last_changed = last .. pack(ENTRY, view.at, units), true
end

-- Returns the sum, the time of the newest entry, and as one entry each those that have to age until
-- the sum is at most one target and then the other.
local function facts_of(key, view, room, limit)
  local sum = view.sum
  if sum == 0 then
    return ""
  end
  local facts = pack(ENTRY, sum, view.newest)
  local target, last = min(sum, limit) - 1, nil
  if room >= 0 and sum > room then
    target, last = max(target, room), min(target, room)
  end
  local number, place, passed, at, units =
    view.first, view.place, view.passed, view.oldest, view.units
  local together = 0
  local function passes(_, more)
    if sum - more > target then
      sum, together = sum - more, together + more
      return true
    end
  end
  local is_found = not passes(at, units)
  while target do
    if not is_found then
      number, place, passed, at, units =
        advance(key, view, number, place + ENTRY_BYTES, passed + units, passes)
    end
    facts = facts .. pack(ENTRY, at, together + units)
    sum, together, is_found = sum - units, 0, false
    while target and sum <= target do
      target, last = last, nil
    end
  end
  return facts
end
