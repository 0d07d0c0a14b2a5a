
-- Gives back, spends more, or forgets, for any number of entries, each by itself.
--
-- KEYS[i]   the key of entry i.
-- ARGV[1]   the time in µs since 1970, in digits; empty: the server's TIME.
-- ARGV[1+i] entry i: step (1 byte: 1 = release, 2 = spend, 3 = reset), a check (prelude.lua) whose
--           cost is the amount and whose room is that of a peek, then of the charge that a release
--           gives back: its time in µs (7) and the units that still stand (7).
-- Reply     per entry a string, or an error if it could not be settled, which leaves the others
--           alone: time in µs (7 bytes), then facts as in decide.lua. The form for a full server
--           leaves alone what has no key.
-- Redis     7.0 or later.
-- Work      as decide; a release from a log looks at the entries that are newer than its own.

local RELEASE, RESET = 1, 3

local function settle(key, entry)
  local step, number, flags, amount, room, x, y, charged_at, charged =
    unpack(">BBBI7i8I7I7I7I7", entry)
  local algorithm, view, facts = made[number] or make(number), {}, ""
  if step == RESET then
    call("DEL", key)
  elseif algorithm.peek(view, key, room, x, y) ~= nil then
    if step == RELEASE then
      facts = algorithm.release(view, key, amount, charged_at, charged, room, x, y)
    else
      facts = algorithm.commit(view, key, amount, room, x, y, flags)
    end
  end
  return pack(">I7", now) .. facts
end

local replies = {}
for entry = 1, #KEYS do
  local is_settled, reply = pcall(settle, KEYS[entry], ARGV[entry + 1])
  replies[entry] = is_settled and reply or failed(reply)
end
return replies
