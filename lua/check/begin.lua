
-- Decides a plan of one check, or peeks at it. Most calls are such, so this makes no function and no
-- table that it can do without.
--
-- KEYS[1]   the key.
-- ARGV      as in decide.lua.
-- Reply     as in decide.lua; an error that a value causes which no algorithm wrote is Redis' own,
--           "ERR user_script…".
-- Redis     7.0 or later.
-- Work      as the algorithm says.

local key, plan = KEYS[1], ARGV[first]
local number, flags, cost, room, x, y = unpack(CHECK, plan, 3)
