-- Says that a sidecar is alive, or takes it out; collects those that have not said so for long.
-- KEYS: the registry
-- ARGV: sidecar, what is to be known of it ('' = it stops), how long one may be silent (ms)
-- Reply: 1
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return 1
end
local now = server_ms()
redis.call('HSET', KEYS[1], ARGV[1], int(now) .. ' ' .. ARGV[2])
local found, gone = redis.call('HSCAN', KEYS[1], '0', 'COUNT', 200)[2], {}
for at = 1, #found, 2 do
  local seen = tonumber(string.match(found[at + 1], '^%d+') or 0)
  if seen + tonumber(ARGV[3]) < now then gone[#gone + 1] = found[at] end
end
if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
return 1
