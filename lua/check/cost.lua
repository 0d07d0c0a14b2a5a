
if string.byte(plan) == 1 then
  cost = nil
elseif not fits and flags < COUNTS_ALL then
  cost = 0
end
