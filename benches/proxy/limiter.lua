-- What people write to share a limit between several nginx: two counters per client and window in
-- Redis, one EVALSHA per request, over kept connections.

local redis = require "nginx.redis"

local limiter = {}

local script = io.open("FOLDER/window.lua"):read("*a")

-- Redis names a script by the forty hex digits of its SHA-1.
local sha = ngx.sha1_bin(script):gsub(".", function(byte)
    return ("%02x"):format(byte:byte())
end)

local function decide(server, ...)
    local answer, failure = server:evalsha(sha, ...)
    if not answer and failure and failure:find("NOSCRIPT", 1, true) then
        return server:eval(script, ...)
    end
    return answer, failure
end

-- Ends the request with 429 if its client has spent `quota` units in `window` seconds, and with 503
-- if Redis does not say.
function limiter.check(name, quota, window)
    local server = redis:new()
    server:set_timeout(1000)
    if not server:connect("127.0.0.1", REDIS) then
        return ngx.exit(503)
    end
    local now = ngx.now()
    local index = math.floor(now / window)
    local key = name .. ":{" .. ngx.var.remote_addr .. "}:"
    local answer = decide(
        server, 2, key .. index, key .. (index - 1),
        quota, 1 - (now - index * window) / window, 2000 * window
    )
    if not answer then
        return ngx.exit(503)
    end
    server:set_keepalive(60000, 256)
    if answer[1] == 0 then
        return ngx.exit(429)
    end
end

return limiter
