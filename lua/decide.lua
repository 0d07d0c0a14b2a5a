-- Decides plans, each all or nothing, or looks at what they would be answered.
--
-- KEYS     the keys of all asks of all plans, in order.
-- ARGV[1]  the time in µs since 1970, in digits; empty: the server's TIME.
-- ARGV[1+i] plan i: flags (1 byte; 1 = look only), asks (1), then each ask (prelude.lua).
-- Reply    per plan a string, or an error if it could not be decided, which leaves the other plans
--          alone: time in µs (7 bytes), admitted (1), then per ask: whether its cost fits (1),
--          length of its facts (2), facts: its value after the step, or what that algorithm says.
-- Redis    7.0 or later; 6.2 lacks nothing that is used.
-- Work     per ask as its algorithm says. All keys of a plan are read before the first is written.

-- What the looks of the plan at hand found.
local fit, views = {}, {}

local function show(key, view, algorithm, room, y)
  if algorithm == GCRA then
    return pack(">I7", view.tat)
  elseif algorithm == SLIDING_LOG then
    return sliding_log_facts(key, view, view.aged, y, room)
  end
  return view.stored or ""
end

-- Decides a plan whose first key is the one after `before`.
local function decide(plan, before, asks)
  local is_look = byte(plan, 1) == 1
  local is_admitted, position = 1, 3
  for ask = 1, asks do
    local algorithm, flags, _, room, x, y
    algorithm, flags, _, room, x, y, position = unpack(ASK, plan, position)
    local fits, view = look(KEYS[before + ask], algorithm, room, x, y)
    fit[ask], views[ask] = fits, view
    if not fits and flags % 2 < SHADOW then
      is_admitted = 0
    end
  end

  local reply = pack(">I7B", now, is_admitted)
  position = 3
  for ask = 1, asks do
    local algorithm, flags, cost, room, x, y
    algorithm, flags, cost, room, x, y, position = unpack(ASK, plan, position)
    local key, view, facts = KEYS[before + ask], views[ask], nil
    if is_look then
      facts = show(key, view, algorithm, room, y)
    else
      if flags < COUNT_ALL and not (is_admitted == 1 and fit[ask]) then
        cost = 0
      end
      facts = commit(key, view, algorithm, flags, cost, room, x, y)
    end
    reply = reply .. pack(">BI2c0", fit[ask] and 1 or 0, #facts, facts)
  end
  return reply
end

local replies, before = {}, 0
for plan = 2, #ARGV do
  local asks = byte(ARGV[plan], 2) or 0
  local is_decided, reply = pcall(decide, ARGV[plan], before, asks)
  if not is_decided then
    reply = failed(reply)
  end
  replies[plan - 1] = reply
  before = before + asks
end
return replies
