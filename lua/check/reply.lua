
local is_admitted = (fits or flags % 2 == 1) and 1 or 0
return pack(">I7BBI2c0", now, is_admitted, fits and 1 or 0, #facts, facts)
