-- credits: a balance that no time gives back.
--
-- Value: a string, the balance (8 bytes, signed, big-endian); it never expires. No value: the initial balance.
-- x = the initial balance, room = the cost. Work: one read and at most one write.

local is_known = call("GET", key)
local balance = is_known and unpack(">i8", is_known) or x
local fits = room <= balance
