
-- Decides plans, each all or nothing, or peeks at what they would be answered.
--
-- KEYS      the keys of all checks of all plans, in order.
-- ARGV      first, unless the server's TIME counts, the time in µs since 1970, in digits; then each
--           plan: flags (1 byte; 1 = peek only), checks (1), then each check (prelude.lua).
-- Reply     one string, which costs both sides less than a list: time in µs (7 bytes), then per plan:
--           admitted (1), then per check: whether its cost fits (1), length of its facts (2), facts:
--           its value after the step, gcra its tat in µs (7), a log what `facts_of` in sliding_log/functions.lua
--           says. A plan that could not be decided leaves the others alone: 2 instead of admitted,
--           then length (2) and text of the error; or 3 and no more, if the windows of a calendar that
--           were sent are not those around the server's time.
--           The form for a full server does not decide a check that has no key: 2 instead of whether
--           its cost fits, and no facts. The plan is decided as if it were not part of it.
-- Redis     7.0 or later.
-- Work      per check as its algorithm says. All keys of a plan are read before the first is written.

local function on_trial(flags, policy)
  return flags % COUNTS_ALL < CANDIDATE and policy or -policy
end

-- Returns a number that names the checks of a policy that are in the same mode.
local function mates(flags, policy)
  return policy * 8 + flags % 2 + flags % COUNTS_ALL - flags % CANDIDATE
end

-- Decides a plan whose first key is the one after `before`.
local function decide(plan, before, checks)
  local is_peek = string.byte(plan) == 1
  if checks == 1 then
    local key, number, flags, cost, room, x, y = KEYS[before + 1], unpack(CHECK, plan, 3)
    local fits, is_known, a, b, c, d, e, f, g = peek(key, room, x, y, number, plan)
    if not is_known and not CREATES_KEYS then
      return pack(">BBI2", 1, 2, 0)
    elseif is_peek then
      cost = nil
    elseif not fits and flags < COUNTS_ALL then
      cost = 0
    end
    local facts = commit(key, cost, room, x, y, flags, a, b, c, d, e, f, g, number)
    local is_admitted = (fits or flags % 2 == 1) and 1 or 0
    return pack(">BBI2c0", is_admitted, fits and 1 or 0, #facts, facts)
  end

  -- A policy is named by the number of its first check, and its candidate by minus that number.
  -- refusing = the policy that refuses, 0 if several do; over = the policies on trial that would have refused;
  -- punished = the policies, by mode, that refuse because of a quota that may admit the cost at another time;
  -- spilled = the checks that take what the one before them refuses.
  local refusing, over, punished, policy, peeks, position = nil, {}, {}, 0, {}, 3
  local spilling, spilled = false, {}
  local number, flags, cost, room, x, y
  for check = 1, checks do
    number, flags, cost, room, x, y, position = unpack(CHECK, plan, position)
    if flags % 4 > 1 then
      policy = check
    end
    local found = { peek(KEYS[before + check], room, x, y, number, plan) }
    if flags >= SPILL then
      spilled[check] = spilling and found[1] and (found[2] or CREATES_KEYS)
      if spilling and not spilled[check] then
        refusing = (refusing or policy) == policy and policy or 0
      end
      spilling = false
    elseif found[1] or not (found[2] or CREATES_KEYS) then
      -- It refuses nothing.
    elseif flags % 2 == 0 then
      -- It is not known yet whether the check after it takes the cost.
      spilling = check < checks and string.byte(plan, position + 1) >= SPILL
      refusing = not spilling and ((refusing or policy) == policy and policy or 0) or refusing
    else
      over[on_trial(flags, policy)] = true
    end
    local may_fit = room >= 0 and number ~= PENALTY and flags < SPILL
    if may_fit and not found[1] and (found[2] or CREATES_KEYS) then
      punished[mates(flags, policy)] = true
    end
    peeks[check] = found
  end

  local reply, policy, position = pack(">B", refusing and 0 or 1), 0, 3
  for check = 1, checks do
    number, flags, cost, room, x, y, position = unpack(CHECK, plan, position)
    if flags % 4 > 1 then
      policy = check
    end
    local fits, is_known, a, b, c, d, e, f, g = unpack_list(peeks[check], 1, 9)
    if is_known or CREATES_KEYS then
      if is_peek then
        cost = nil
      elseif number == PENALTY then
        cost = punished[mates(flags, policy)] and 1 or cost
      elseif flags >= SPILL then
        cost = spilled[check] and not refusing and cost or 0
      elseif flags < COUNTS_ALL and not fits then
        cost = 0
      elseif flags < COUNTS_ALL and refusing and (flags < CANDIDATE or refusing ~= policy) then
        cost = 0
      elseif flags < COUNTS_ALL and flags % 2 == 1 and over[on_trial(flags, policy)] then
        cost = 0
      end
      local key = KEYS[before + check]
      local facts = commit(key, cost, room, x, y, flags, a, b, c, d, e, f, g, number)
      reply = reply .. pack(">BI2c0", fits and 1 or 0, #facts, facts)
    else
      reply = reply .. pack(">BI2", 2, 0)
    end
  end
  return reply
end

local replies, before = { pack(">I7", now) }, 0
for plan = first, #ARGV do
  local checks = string.byte(ARGV[plan], 2) or 0
  local is_decided, reply = pcall(decide, ARGV[plan], before, checks)
  if reply == OUTSIDE then
    reply = pack(">B", 3)
  elseif not is_decided then
    -- Either an error of the server, or a value that no algorithm wrote.
    local text = string.find(reply, "^%u+ ") and reply or "UNREADABLE " .. reply
    reply = pack(">BI2c0", 2, #text, text)
  end
  replies[#replies + 1] = reply
  before = before + checks
end
return table.concat(replies)
