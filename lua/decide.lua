
-- Decides plans, each all or nothing, or looks at what they would be answered.
--
-- KEYS      the keys of all asks of all plans, in order.
-- ARGV[1]   the time in µs since 1970, in digits; empty: the server's TIME.
-- ARGV[1+i] plan i: flags (1 byte; 1 = look only), asks (1), then each ask (prelude.lua).
-- Reply     per plan a string, or an error if it could not be decided, which leaves the other plans
--           alone: time in µs (7 bytes), admitted (1), then per ask: whether its cost fits (1),
--           length of its facts (2), facts: its value after the step, gcra its tat in µs (7), a log
--           what `facts` in sliding_log.lua says.
-- Redis     7.0 or later.
-- Work      per ask as its algorithm says. All keys of a plan are read before the first is written.

-- What the looks of the plan at hand found; the tables are used again by the next plan.
local fits, views = {}, {}

-- Decides a plan whose first key is the one after `before`.
local function decide(plan, before, asks)
  local is_admitted, position = 1, 3
  local number, flags, cost, room, x, y
  for ask = 1, asks do
    number, flags, cost, room, x, y, position = unpack(ASK, plan, position)
    local view = views[ask]
    if not view then
      view = {}
      views[ask] = view
    end
    local does_fit = (made[number] or make(number)).look(view, KEYS[before + ask], room, x, y)
    fits[ask] = does_fit
    if not does_fit and flags % 2 == 0 then
      is_admitted = 0
    end
  end

  local is_look, facts = byte(plan) == 1, nil
  local reply = asks == 0 and pack(">I7B", now, 1)
  position = 3
  for ask = 1, asks do
    if asks > 1 then
      number, flags, cost, room, x, y, position = unpack(ASK, plan, position)
    end
    local does_fit = fits[ask]
    if is_look then
      facts = made[number].show(views[ask], KEYS[before + ask], room, y)
    else
      if flags < COUNTS_ALL and (is_admitted == 0 or not does_fit) then
        cost = 0
      end
      facts = made[number].commit(views[ask], KEYS[before + ask], cost, room, x, y, flags)
    end
    if ask == 1 then
      reply = pack(">I7BBI2c0", now, is_admitted, does_fit and 1 or 0, #facts, facts)
    else
      reply = reply .. pack(">BI2c0", does_fit and 1 or 0, #facts, facts)
    end
  end
  return reply
end

local replies, before = {}, 0
for plan = 2, #ARGV do
  local asks = byte(ARGV[plan], 2) or 0
  local is_decided, reply = pcall(decide, ARGV[plan], before, asks)
  replies[plan - 1] = is_decided and reply or failed(reply)
  before = before + asks
end
return replies
