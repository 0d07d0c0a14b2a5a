-- Asks for some of a number of routes in turn, not in the order of the file.

local STRIDE = 7919 -- A prime, so that it meets every route before one comes again.

local requests, at = {}, 0

function init(arguments)
    local asked, routes = tonumber(arguments[1]), tonumber(arguments[2])
    for turn = 1, asked do
        requests[turn] = wrk.format("GET", "/r" .. (turn * STRIDE % routes))
    end
end

function request()
    at = at % #requests + 1
    return requests[at]
end
