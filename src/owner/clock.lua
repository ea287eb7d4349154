-- Microseconds by the server.
local function server_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Milliseconds by the server.
local function server_ms()
  return math.floor(server_us() / 1000)
end
