
-- sliding-log: every spent cost with its time.
--
-- Value: a list. Its elements but the last are blocks, oldest first, of at most 583 entries, oldest
-- first: an entry is its time in µs and its units (7 bytes each, big-endian). The last element is the
-- head: units of all entries, time of the newest, time and units of the oldest, the largest limit of those
-- that have written to the log since it was empty (7 bytes each), and the number of blocks, with the
-- head's own (2). If there are several, the head goes on with how many bytes of the first one count no more,
-- and their units, and with the index: for each block before the head a time, which is that of its newest
-- entry or later, but not later than the next block's, and its units (7 bytes each). The last block is
-- the rest of the head, as it is written for each cost that is logged. No value: nothing used.
-- x = window in µs, y = limit.
-- Work: the head is read, and written if a cost is logged; for every 32nd the block before is, too. What
-- has aged since the last step, or has to until a larger cost fits, and what comes back, is found by the
-- index, and then in one block.

local min, max, sub = math.min, math.max, string.sub
local HEAD, HEAD_BYTES, ENTRY, ENTRY_BYTES = ">I7I7I7I7I7I2", 37, ">I7I7", 14
local BLOCK_BYTES, LAST_BYTES = 583 * 14, 32 * 14

local function block_of(key, view, number)
  if number == view.blocks then
    return view.last
  elseif number == view.blocks - 1 and view.closed then
    return view.closed
  end
  return call("LINDEX", key, number - 1) or error("a log without a block", 0)
end

-- Passes entries, from `place` in block `number` on, before which that block has `passed` units, as long as
-- `passes` agrees, given the time and the units of one entry, or the newest time and the units of all that is
-- left of a block. Returns block, place, and units before it, of the first entry not passed, its time and units.
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

-- Makes the list the same as the view, and drops the blocks before the view's first from both.
local function write(key, view, window)
  if view.sum == 0 then
    call("DEL", key)
    return
  end
  local dropped, blocks = view.first - 1, view.blocks
  view.first, view.blocks = 1, blocks - dropped
  view.index = sub(view.index, dropped * ENTRY_BYTES + 1)
  if view.blocks == 1 then
    view.last, view.place, view.passed = sub(view.last, view.place), 1, 0
  end
  local head = pack(HEAD, view.sum, view.newest, view.oldest, view.units, view.limit, view.blocks)
  if view.blocks > 1 then
    head = head .. pack(ENTRY, view.place - 1, view.passed) .. view.index
  end
  head = head .. view.last
  if view.is_over then
    -- Not deleted first: while its slot moves to another node, a script cannot make a key again.
    call("RPUSH", key, head)
    call("LTRIM", key, "-1", "-1")
  elseif view.is_new then
    call("RPUSH", key, head)
  elseif view.is_cut then
    call("LSET", key, blocks - 1, head)
    call("LTRIM", key, "0", blocks - 1)
  elseif view.closed then
    call("LSET", key, "-1", view.closed)
    call("RPUSH", key, head)
  else
    call("LSET", key, "-1", head)
  end
  if dropped > 0 then
    call("LTRIM", key, dropped, "-1")
  end
  view.is_over, view.is_new, view.is_cut, view.is_changed, view.closed = nil, nil, nil, nil, nil
  call("PEXPIRE", key, string.format("%d", (view.newest + window - now) / 1000 + 1001))
end

-- Empties the last block: it joins the one before if that has room, or becomes a block before the head.
local function close(key, view)
  local last, together = view.last, 0
  for place = 1, #last, ENTRY_BYTES do
    local _, units = unpack(ENTRY, last, place)
    together = together + units
  end
  local before = view.blocks - 1
  local block = before >= view.first and block_of(key, view, before)
  if block and #block + #last <= BLOCK_BYTES then
    call("LSET", key, before - 1, block .. last)
    local _, units = unpack(ENTRY, view.index, (before - 1) * ENTRY_BYTES + 1)
    together = together + units
    view.index = sub(view.index, 1, (before - 1) * ENTRY_BYTES)
  else
    view.blocks, view.closed = view.blocks + 1, last
  end
  view.index, view.last = view.index .. pack(ENTRY, view.newest, together), ""
end

-- Appends an entry of the view's time to its last block.
local function append(key, view, units)
  if view.first == view.blocks then
    view.last, view.place, view.passed = sub(view.last, view.place), 1, 0
  end
  if #view.last >= LAST_BYTES and not view.is_cut then
    close(key, view)
  end
  view.last = view.last .. pack(ENTRY, view.at, units)
end

-- Returns the sum, the time of the newest entry, and one entry for each of at most two targets: it
-- stands for the entries that have to age until the sum is at most that target.
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
  local together, passes = 0, nil
  while target do
    -- Often it is the oldest alone.
    if not at or sum - units > target then
      passes = passes
        or function(_, more)
          if sum - more > target then
            sum, together = sum - more, together + more
            return true
          end
        end
      if at then
        passes(at, units)
      end
      number, place, passed, at, units =
        advance(key, view, number, place + ENTRY_BYTES, passed + units, passes)
    end
    facts = facts .. pack(ENTRY, at, together + units)
    sum, together, at = sum - units, 0, nil
    while target and sum <= target do
      target, last = last, nil
    end
  end
  return facts
end
