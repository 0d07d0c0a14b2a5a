#!lua flags=allow-oom
-- Keeps what operators ordered for single clients, for every gateway of the fleet.
--
-- KEYS[1]  a hash: directives by id, each its end in ms since 1970 (7 bytes) and its text; `version`, which
--          rises with every change; `until`, the latest end of any directive there was.
-- ARGV     what to do, then:
--          get: the version that is known.
--          put: an id, its end in ms, its text, and how many directives there may be.
--          remove: ids.
--          restore: the version that is held, then id, end and text of each, which take the place of what is
--          there if that is older: the server has lost what was done since.
-- Reply    get: the version, and unless it is known id, end and text of each. put and restore: 1 if
--          they are kept, otherwise 0. remove: how many there were.
-- Redis    7.0 or later; one that is full too, since there is one key, which ARGV bounds.
-- Work     get of the known version O(1), otherwise O(directives).

local key, action = KEYS[1], ARGV[1]
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function digits(number)
  return string.format("%.0f", number)
end

local function is_directive(field)
  return field ~= "version" and field ~= "until"
end

-- Writes that there is another version, and lets the key live until no gateway can hold a directive of it.
local function changed(latest)
  local version = tonumber(redis.call("HGET", key, "version") or 0)
  latest = math.max(latest, tonumber(redis.call("HGET", key, "until") or 0))
  version = math.max(version + 1, time[1] * 1000000 + time[2])
  redis.call("HSET", key, "version", digits(version), "until", digits(latest))
  redis.call("PEXPIRE", key, digits(math.max(latest - now, 0) + 60000))
end

local function put(id, ends, text)
  redis.call("HSET", key, id, struct.pack(">I7", ends) .. text)
end

-- Removes what has ended; returns how many are left.
local function prune()
  local fields, left = redis.call("HGETALL", key), 0
  for at = 1, #fields, 2 do
    if is_directive(fields[at]) then
      if struct.unpack(">I7", fields[at + 1]) <= now then
        redis.call("HDEL", key, fields[at])
      else
        left = left + 1
      end
    end
  end
  return left
end

if action == "get" then
  local version = redis.call("HGET", key, "version") or "0"
  local reply = { version }
  if version ~= ARGV[2] then
    local fields = redis.call("HGETALL", key)
    for at = 1, #fields, 2 do
      if is_directive(fields[at]) then
        local ends = struct.unpack(">I7", fields[at + 1])
        reply[#reply + 1] = fields[at]
        reply[#reply + 1] = digits(ends)
        reply[#reply + 1] = string.sub(fields[at + 1], 8)
      end
    end
  end
  return reply
elseif action == "put" then
  local id, ends, text, most = ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
  if not ends or not most then
    return redis.error_reply("ERR an end and a number are whole numbers")
  end
  if prune() >= most and not redis.call("HGET", key, id) then
    return 0
  end
  put(id, ends, text)
  changed(ends)
  return 1
elseif action == "remove" then
  local removed = 0
  for at = 2, #ARGV do
    removed = removed + redis.call("HDEL", key, ARGV[at])
  end
  if removed > 0 then
    changed(0)
  end
  return removed
elseif action == "restore" then
  if tonumber(redis.call("HGET", key, "version") or 0) >= tonumber(ARGV[2]) then
    return 0
  end
  local latest = tonumber(redis.call("HGET", key, "until") or 0)
  redis.call("DEL", key)
  for at = 3, #ARGV, 3 do
    local ends = tonumber(ARGV[at + 1])
    put(ARGV[at], ends, ARGV[at + 2])
    latest = math.max(latest, ends)
  end
  changed(latest)
  return 1
end
return redis.error_reply("ERR unknown action")
