
-- Puts a block of which units have come back in the place of an older one. Small neighbours become one, so
-- that there are never many more blocks than entries fill.
local function replace(key, view, number, block, amount)
  local function closed(of)
    return unpack(ENTRY, view.index, (of - 1) * ENTRY_BYTES + 1)
  end
  -- Joins block `number` and the next into `both`; `entry` is for the index, nil if that is the last block.
  local function join(number, both, entry)
    local first, rest = sub(view.index, 1, (number - 1) * ENTRY_BYTES), ""
    call("LSET", key, number - 1, "")
    call("LREM", key, "1", "")
    view.blocks = view.blocks - 1
    if entry then
      rest = entry .. sub(view.index, (number + 1) * ENTRY_BYTES + 1)
      call("LSET", key, number - 1, both)
    else
      view.last = both
    end
    view.index = first .. rest
  end

  if number == view.blocks then
    if block == "" then
      number = number - 1
      block = block_of(key, view, number)
      view.blocks, view.is_cut = number, true
      view.index = sub(view.index, 1, -ENTRY_BYTES - 1)
    end
    view.last = block
    return
  end
  local newest, units = closed(number)
  units = units - amount
  local after = #block <= BLOCK_BYTES / 2 and block_of(key, view, number + 1)
  if after and #block + #after <= BLOCK_BYTES then
    local entry
    if number + 1 < view.blocks then
      local newest, more = closed(number + 1)
      entry = pack(ENTRY, newest, units + more)
    end
    join(number, block .. after, entry)
    return
  end
  local before = number > 1 and #block <= BLOCK_BYTES / 2 and block_of(key, view, number - 1)
  if before and #before + #block <= BLOCK_BYTES then
    local _, more = closed(number - 1)
    join(number - 1, before .. block, pack(ENTRY, newest, units + more))
    return
  end
  call("LSET", key, number - 1, block)
  view.index = sub(view.index, 1, (number - 1) * ENTRY_BYTES)
    .. pack(ENTRY, newest, units)
    .. sub(view.index, number * ENTRY_BYTES + 1)
end

-- Returns the number of the block that has the newest entry of a time, the block, the place of the entry, and its
-- units.
local function find_entry(key, view, charged_at)
  local beginning = pack(">I7", charged_at)
  for number = view.blocks, 1, -1 do
    local before = number > 1 and unpack(ENTRY, view.index, (number - 2) * ENTRY_BYTES + 1) or 0
    if before <= charged_at then
      local block = block_of(key, view, number)
      local place, found = (number == 1 and view.place or 1) - 1, nil
      repeat
        place = string.find(block, beginning, place + 1, true)
        if place and place % ENTRY_BYTES == 1 then
          found = place
        end
      until not place
      if found then
        local _, units = unpack(ENTRY, block, found)
        return number, block, found, units
      elseif before < charged_at then
        return
      end
    end
  end
end

local function release(key, amount, charge, room, window, limit, view)
  local last = not charge and view.sum > 0 and block_of(key, view, view.blocks)
  local charged_at, charged = unpack_list(charge or { 0, 0 })
  if last then
    charged_at, charged = unpack(ENTRY, last, #last - ENTRY_BYTES + 1)
  end
  if view.is_changed or view.is_over then
    write(key, view, window)
  end
  -- Entries of one time age together, so units may come off any of them.
  amount = min(amount, charged)
  while amount > 0 and view.sum > 0 and charged_at >= view.oldest do
    local number, block, place, units = find_entry(key, view, charged_at)
    if not place then
      break
    end
    local back = min(amount, units)
    local kept = back < units and pack(ENTRY, charged_at, units - back) or ""
    block = sub(block, 1, place - 1) .. kept .. sub(block, place + ENTRY_BYTES)
    amount, view.sum = amount - back, view.sum - back
    if view.sum > 0 then
      replace(key, view, number, block, back)
      view.first, view.place, view.passed, view.oldest, view.units =
        advance(key, view, 1, view.place, view.passed, function() end)
      local last = block_of(key, view, view.blocks)
      view.newest = unpack(ENTRY, last, #last - ENTRY_BYTES + 1)
    end
    write(key, view, window)
  end
  return facts_of(key, view, room, limit)
end
