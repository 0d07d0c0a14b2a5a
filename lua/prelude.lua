-- What the algorithms and the drivers share. Redis 7.0 or later.
--
-- Numbers are doubles: all integers here stay at or below 2^53 or are divided by limbs, and none
-- is ever made of text by `..` or tostring, which print 14 digits.

local unpack_list, byte = unpack, string.byte
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local sub, floor, min, max, frexp = string.sub, math.floor, math.min, math.max, math.frexp

-- Counters saturate here.
local COUNT_MAX = 4503599627370496
-- Algorithms, as asks name them.
local FIXED_WINDOW, WEIGHTED, WHOLE, DROPPED, SLIDING_LOG, GCRA = 1, 2, 3, 4, 5, 6
-- One ask: algorithm (1 byte), flags (1), cost (7), room (8, signed), x (7), y (7), big-endian.
-- The room is what may be in use for the cost to fit, -1 if it never does.
local ASK = ">BBI7i8I7I7"
local SHADOW, COUNT_ALL = 1, 2

-- Returns how many ms a key lives whose state stops mattering in that many µs: a second more.
local function lifetime(us)
  return floor(us / 1000) + 1001
end
