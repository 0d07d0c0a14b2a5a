-- What the algorithms and the drivers share. Redis 7.0 or later.
--
-- Numbers are doubles: integers stay at or below 2^53 or are divided by limbs, and none is made of
-- text by `..` or tostring, which print 14 digits.
--
-- The first line of a script is `#!lua`: Redis then refuses a call with OOM before it executes
-- anything of it, and no plan can make a key after another one's DEL. Each script that writes counters
-- has a second form, with `flags=allow-oom`, for a server that is full: it updates keys that exist and
-- makes none. CREATES_KEYS says which form this is; it is set on the second line.
--
-- Each algorithm has a peek, which reads a key into a view and says whether the cost fits, or nil if
-- there is no key and none may be made; a commit, which spends a cost or none, writes what has changed
-- and returns the facts; a release, which gives back; and a show, which returns the facts of a view and
-- writes nothing. The facts of an empty state are "". What aged or was from far ahead is written back
-- even if nothing is spent.

local KEYS, ARGV, call, unpack_list = KEYS, ARGV, redis.call, unpack
local byte, format, sub = string.byte, string.format, string.sub
local pack, unpack = struct.pack, struct.unpack
local floor, min, max, frexp = math.floor, math.min, math.max, math.frexp

-- Counters saturate here.
local COUNT_MAX = 4503599627370496
-- One check: algorithm (1 byte), flags (1), cost (7), room (8, signed), x (7), y (7), big-endian.
-- The room is how much may be in use for the cost to fit, -1 if it never fits.
local CHECK = ">BBI7i8I7I7"
-- Flags: 1 = shadow, 2 = counts refused requests too.
local COUNTS_ALL = 2
-- Algorithms; 2 to 4 are sliding-window: leaving weighted, whole, dropped.
local FIXED_WINDOW, WEIGHTED, DROPPED, SLIDING_LOG, GCRA = 1, 2, 4, 5, 6

-- The time in µs since 1970.
local now
if ARGV[1] == "" then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

-- Returns how many ms a key lives whose state stops mattering in that many µs: a second more. In
-- digits, since the server writes numbers as doubles, which takes longer.
local function lifetime(us)
  return format("%d", us / 1000 + 1001)
end

-- Returns the error reply for what `pcall` caught: the server's own words, or UNREADABLE for a
-- value that no algorithm wrote.
local function failed(reason)
  if string.find(reason, "^%u+ ") then
    return { err = reason }
  end
  return { err = "UNREADABLE " .. reason }
end
