
-- The algorithms by number, each made when it is first needed: to make them all takes the server
-- longer than to decide.

local made = {}

local function make(number)
  local algorithm
  if number == FIXED_WINDOW then
    algorithm = fixed_window()
  elseif number == SLIDING_LOG then
    algorithm = sliding_log()
  elseif number == GCRA then
    algorithm = gcra()
  elseif number >= WEIGHTED and number <= DROPPED then
    algorithm = sliding_window(number)
  else
    error("a check without an algorithm", 0)
  end
  made[number] = algorithm
  return algorithm
end
