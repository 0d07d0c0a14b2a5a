
-- Decides plans, each all or nothing, or peeks at what they would be answered.
--
-- KEYS      the keys of all checks of all plans, in order.
-- ARGV[1]   the time in µs since 1970, in digits; empty: the server's TIME.
-- ARGV[1+i] plan i: flags (1 byte; 1 = peek only), checks (1), then each check (prelude.lua).
-- Reply     per plan a string, or an error if it could not be decided, which leaves the other plans
--           alone: time in µs (7 bytes), admitted (1), then per check: whether its cost fits (1),
--           length of its facts (2), facts: its value after the step, gcra its tat in µs (7), a log
--           what `facts` in sliding_log.lua says.
--           The form for a full server does not decide a check that has no key: 2 instead of whether
--           its cost fits, and no facts. The plan is decided as if it were not part of it.
-- Redis     7.0 or later.
-- Work      per check as its algorithm says. All keys of a plan are read before the first is written.

local UNDECIDED = 2

-- What the peeks of the plan at hand found; the tables are used again by the next plan.
local fits, views = {}, {}

-- Decides a plan whose first key is the one after `before`.
local function decide(plan, before, checks)
  local is_admitted, position = 1, 3
  local number, flags, cost, room, x, y
  for check = 1, checks do
    number, flags, cost, room, x, y, position = unpack(CHECK, plan, position)
    local view = views[check]
    if not view then
      view = {}
      views[check] = view
    end
    local does_fit = (made[number] or make(number)).peek(view, KEYS[before + check], room, x, y)
    fits[check] = does_fit
    if does_fit == false and flags % 2 == 0 then
      is_admitted = 0
    end
  end

  local is_peek = byte(plan) == 1
  local reply = checks == 0 and pack(">I7B", now, 1)
  position = 3
  for check = 1, checks do
    if checks > 1 then
      number, flags, cost, room, x, y, position = unpack(CHECK, plan, position)
    end
    local does_fit, fit, facts = fits[check], UNDECIDED, ""
    if does_fit ~= nil then
      fit = does_fit and 1 or 0
      if is_peek then
        facts = made[number].show(views[check], KEYS[before + check], room, y)
      else
        if flags < COUNTS_ALL and (is_admitted == 0 or not does_fit) then
          cost = 0
        end
        facts = made[number].commit(views[check], KEYS[before + check], cost, room, x, y, flags)
      end
    end
    if check == 1 then
      reply = pack(">I7BBI2c0", now, is_admitted, fit, #facts, facts)
    else
      reply = reply .. pack(">BI2c0", fit, #facts, facts)
    end
  end
  return reply
end

local replies, before = {}, 0
for plan = 2, #ARGV do
  local checks = byte(ARGV[plan], 2) or 0
  local is_decided, reply = pcall(decide, ARGV[plan], before, checks)
  replies[plan - 1] = is_decided and reply or failed(reply)
  before = before + checks
end
return replies
