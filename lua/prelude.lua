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
-- A key lives a second longer than its state matters: us / 1000 + 1001 ms. It is sent in digits, as
-- the server writes numbers as doubles, which takes longer.
--
-- A script runs from its first line at every call, and a function or a table takes the server longer
-- to make than most steps take. So what decides one check is one run of steps, and a function that is
-- needed rarely is made where it is needed. The files of an algorithm are parts of such a run:
-- - peek takes `key`, `room`, `x`, `y`, `number` (the algorithm) and `plan` (the argument), reads the
--   key, and leaves `fits` (whether the cost does), `is_known` (whether there is a key), and its state
--   in locals of its own;
-- - commit takes these, `cost` and `flags`, spends the cost, writes what has changed, and leaves
--   `facts`: what the reply says of the state, "" if it is empty. What aged or was from far ahead is
--   written back even if nothing is spent. If the cost is nil, nothing is written.
-- check/ puts them together for a plan of one check. Where plans or algorithms are mixed, each part is
-- the body of a function of its name (algorithms.lua). There, release gives back, and returns facts.

local KEYS, ARGV, call, pack, unpack, unpack_list =
  KEYS, ARGV, redis.call, struct.pack, struct.unpack, unpack

-- One check: algorithm (1 byte), flags (1), cost (7), room (8, signed), x (7), y (7), big-endian.
-- The room is how much may be in use for the cost to fit, negative if it never fits. Algorithms: 1 =
-- fixed-window; 2, 3, 4 = sliding-window, its oldest bucket weighted, whole, dropped; 5 = sliding-log;
-- 6 = gcra; 7 = calendar, whose windows follow all checks; 8 = fixed-window that begins with its first
-- unit; 9, 10, 11 = as 2, 3, 4, with 128 buckets and more; 12 = credits, whose room is the cost itself;
-- 13 = the penalty of its policy; 14 = in-flight, whose gateway follows all checks.
-- Flags: 1 = never refuses (in shadow, or a candidate), 2 = begins another policy than the check
-- before, 4 = candidate, 8 = counts refused requests too, 16 = takes what the check before it refuses.
local CHECK, CANDIDATE, COUNTS_ALL, SPILL, CREDITS, PENALTY, IN_FLIGHT = ">BBI7i8I7I7", 4, 8, 16, 12, 13, 14

-- The time in µs since 1970: the first argument if that is a number, otherwise the server's.
local now, first = tonumber(ARGV[1]), 2
if not now then
  local time = call("TIME")
  now, first = time[1] * 1000000 + time[2], 1
end
