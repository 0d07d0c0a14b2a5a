
-- Gives back, spends more, or forgets, for any number of entries, each by itself.
--
-- KEYS[i]   the key of entry i.
-- ARGV[1]   the time in µs since 1970, in digits; empty: the server's TIME.
-- ARGV[1+i] entry i: step (1 byte: 1 = release, 2 = spend, 3 = reset), an ask (prelude.lua) whose
--           cost is the amount and whose room is that of a look, then of the charge that a release
--           gives back: its time in µs (7) and the units that still stand (7).
-- Reply     per entry a string, or an error if it could not be settled, which leaves the others
--           alone: time in µs (7 bytes), then facts as in decide.lua.
-- Redis     7.0 or later.
-- Work      as decide; a release from a log looks at the entries that are newer than its own.

local LOOK = {
  fixed_window_look, sliding_window_look, sliding_window_look, sliding_window_look,
  sliding_log_look, gcra_look,
}
local COMMIT = {
  fixed_window_commit, sliding_window_commit, sliding_window_commit, sliding_window_commit,
  sliding_log_commit, gcra_commit,
}
local RETURN = {
  fixed_window_release, sliding_window_release, sliding_window_release, sliding_window_release,
  sliding_log_release, gcra_release,
}
local RELEASE, SPEND = 1, 2

local function settle(key, entry)
  local step, algorithm, flags, amount, room, x, y, charged_at, charged =
    unpack(">BBBI7i8I7I7I7I7", entry)
  local view, facts = {}, ""
  if step == RELEASE then
    LOOK[algorithm](view, key, room, x, y, algorithm)
    facts = RETURN[algorithm](view, key, amount, charged_at, charged, room, x, y)
  elseif step == SPEND then
    LOOK[algorithm](view, key, room, x, y, algorithm)
    facts = COMMIT[algorithm](view, key, amount, room, x, y, flags)
  else
    call("DEL", key)
  end
  return pack(">I7", now) .. facts
end

local replies = {}
for entry = 1, #KEYS do
  local is_settled, reply = pcall(settle, KEYS[entry], ARGV[entry + 1])
  replies[entry] = is_settled and reply or failed(reply)
end
return replies
