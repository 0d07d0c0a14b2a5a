-- Gives back, spends more, or forgets, for any number of entries, each by itself.
--
-- KEYS[i]   the key of entry i.
-- ARGV[1]   the time in µs since 1970, in digits; empty: the server's TIME.
-- ARGV[1+i] entry i: step (1 byte: 1 = release, 2 = spend, 3 = reset), an ask (prelude.lua) whose
--           cost is the amount and whose room is that of a look, then of the charge that a release
--           gives back: its time in µs (7) and the units that still stand (7).
-- Reply     per entry a string, or an error if it could not be settled: time in µs (7 bytes), then
--           facts: its value after the step, or what that algorithm says.
-- Redis     7.0 or later.
-- Work      as decide; a release from a log looks at the entries that are newer than its own.

local RELEASE, SPEND = 1, 2

local function release(key, view, algorithm, ...)
  if algorithm == GCRA then
    return gcra_release(key, view, now, ...)
  elseif algorithm == FIXED_WINDOW then
    return fixed_window_release(key, view, now, ...)
  elseif algorithm == SLIDING_LOG then
    return sliding_log_release(key, view, now, ...)
  end
  return sliding_window_release(key, view, now, ...)
end

local function settle(key, entry)
  local step, position = byte(entry, 1), 2
  local algorithm, flags, amount, room, x, y
  algorithm, flags, amount, room, x, y, position = unpack(ASK, entry, position)
  local at, charged = unpack(">I7I7", entry, position)
  local facts = ""
  if step == RELEASE then
    local _, view = look(key, algorithm, room, x, y)
    facts = release(key, view, algorithm, amount, at, charged, x, y, room)
  elseif step == SPEND then
    local _, view = look(key, algorithm, room, x, y)
    facts = commit(key, view, algorithm, flags, amount, room, x, y)
  else
    call("DEL", key)
  end
  return pack(">I7", now) .. facts
end

local replies = {}
for entry = 1, #KEYS do
  local is_settled, reply = pcall(settle, KEYS[entry], ARGV[entry + 1])
  if not is_settled then
    reply = failed(reply)
  end
  replies[entry] = reply
end
return replies
