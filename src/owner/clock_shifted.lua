-- Milliseconds by the server, shifted by a test (milliseconds in the key `pannier:test-clock`).
local function server_ms()
  local time = redis.call('TIME')
  local shift = tonumber(redis.call('GET', 'pannier:test-clock') or 0)
  return time[1] * 1000 + math.floor(time[2] / 1000) + shift
end
