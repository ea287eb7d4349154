-- Sets fields of the head, and makes the queue if need be.
-- ARGV: buckets; sealed name; then field and value; '' takes a field away, '+n' is n ms from now
-- Reply: {'OK', 1 if the first field was there with a value that still counts}
redis.call('HSETNX', H, 'nm', ARGV[2])
local before = ARGV[3] and redis.call('HGET', H, ARGV[3])
local counted = before and (before == '-1' or tonumber(before) > now)
for n = 3, #ARGV, 2 do
  local value = ARGV[n + 1]
  if value == '' then
    redis.call('HDEL', H, ARGV[n])
  else
    if string.sub(value, 1, 1) == '+' then value = int(now + tonumber(value)) end
    redis.call('HSET', H, ARGV[n], value)
  end
end
finish()
redis.call('PUBLISH', string.sub(KEYS[1], 1, -2) .. 'n', '')
return {'OK', counted and 1 or 0, int(now)}
