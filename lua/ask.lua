-- One ask of any algorithm, at the time of the call.

local now
if ARGV[1] == "" then
  local time = call("TIME")
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(ARGV[1])
end

local function look(key, algorithm, room, x, y)
  if x < 1 then
    error("an ask without a window", 0)
  elseif algorithm == GCRA then
    return gcra_look(key, now, room, x)
  elseif algorithm == FIXED_WINDOW then
    return fixed_window_look(key, now, room, x)
  elseif algorithm == SLIDING_LOG then
    return sliding_log_look(key, now, room, x)
  end
  return sliding_window_look(key, now, room, x, y, algorithm)
end

local function commit(key, view, algorithm, flags, cost, room, x, y)
  if algorithm == GCRA then
    return gcra_commit(key, view, now, cost, x)
  elseif algorithm == FIXED_WINDOW then
    return fixed_window_commit(key, view, now, cost, x)
  elseif algorithm == SLIDING_LOG then
    return sliding_log_commit(key, view, now, cost, x, y, room, flags >= COUNT_ALL)
  end
  return sliding_window_commit(key, view, now, cost, x, y)
end

-- Returns the error reply for what `pcall` caught: the server's own words, or a bug's.
local function failed(reason)
  if string.find(reason, "^%u+ ") then
    return { err = reason }
  end
  return { err = "ERR " .. reason }
end
