
-- Gives back, spends more, or forgets, for any number of entries, each by itself.
--
-- KEYS[i]   the key of entry i.
-- ARGV      first, unless the server's TIME counts, the time in µs since 1970, in digits; then each
--           entry: step (1 byte: 1 = release, 2 = spend, 3 = reset, 4 = release of the newest bucket, of
--           the newest entry, or of what a bucket lacks, whoever charged it, 5 = spend in the window or the
--           bucket of the charge, if it still counts), a check (prelude.lua) whose cost is the amount and whose
--           room is that of a peek, then of the charge that a release gives back: its time in µs (7), the
--           units that still stand (7) and, of gcra, the debt that it found and what was given back by then,
--           in µs (7 each). Of in-flight a release announces how many units
--           a gateway holds, and its facts are those of in_flight/release.lua.
-- Reply     per entry a string, or an error if it could not be settled, which leaves the others
--           alone: time in µs (7 bytes), then facts as in decide.lua. The form for a full server
--           leaves alone what has no key. The error OUTSIDE, and the server's time in µs, if the windows
--           of a calendar that were sent are not those around it.
-- Redis     7.0 or later.
-- Work      as decide.

local RELEASE, SPEND, RESET, RELEASE_NEWEST, SPEND_THEN = 1, 2, 3, 4, 5

local function settle(key, entry)
  local step, number, flags, amount, room, x, y, charged_at, charged, debt, given_then =
    unpack(">BBBI7i8I7I7I7I7I7I7", entry)
  local facts = ""
  if step == RESET then
    call("DEL", key)
  else
    local _, is_known, a, b, c, d, e, f, g = peek(key, room, x, y, number, entry)
    -- An initial balance has no key, but what comes back changes it, so it needs one.
    local is_written = is_known or number == CREDITS or CREATES_KEYS and number == IN_FLIGHT
    if (step == RELEASE or step == RELEASE_NEWEST) and is_written then
      local release = releases[number]
      local charge = step == RELEASE and { charged_at, charged, debt, given_then }
      facts = release(key, amount, charge, room, x, y, a, b, c, d, e, f, g)
    elseif step == SPEND_THEN and (is_known or CREATES_KEYS) then
      local charge = { charged_at, charged, debt, given_then }
      facts = releases[number](key, -amount, charge, room, x, y, a, b, c, d, e, f, g)
    elseif step == SPEND and (is_known or CREATES_KEYS) then
      facts = commit(key, amount, room, x, y, flags, a, b, c, d, e, f, g, number)
    end
  end
  return pack(">I7", now) .. facts
end

local replies = {}
for entry = 1, #KEYS do
  local is_settled, reply = pcall(settle, KEYS[entry], ARGV[first - 1 + entry])
  if reply == OUTSIDE then
    reply = { err = OUTSIDE .. string.format("%.0f", now) }
  elseif not is_settled then
    -- Either an error of the server, or a value that no algorithm wrote.
    reply = { err = string.find(reply, "^%u+ ") and reply or "UNREADABLE " .. reply }
  end
  replies[entry] = reply
end
return replies
