-- Microseconds by the server, as a test wants them: the key `pannier:test-clock` holds milliseconds to add, or `=` and the
-- milliseconds at which the clock stands still.
local function server_us()
  local set = redis.call('GET', 'pannier:test-clock') or '0'
  if string.sub(set, 1, 1) == '=' then return tonumber(string.sub(set, 2)) * 1000 end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2] + tonumber(set) * 1000
end
