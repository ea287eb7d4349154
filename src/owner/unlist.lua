#!lua flags=allow-oom
-- Takes an owner out of the index if it is still marked as being made or unmade (-1).
-- KEYS: index bucket
-- ARGV: tag
-- Reply: 1 removed, 0 left alone
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) == -1 then
  return redis.call('ZREM', KEYS[1], ARGV[1])
end
return 0
