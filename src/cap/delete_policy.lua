-- Takes a policy away.
-- KEYS: policies
-- ARGV: name (8 bytes), revision ('0' = whatever is there)
-- Reply: OK deleted
local raw = redis.call('HGET', KEYS[1], ARGV[1])
if not raw or (ARGV[2] ~= '0' and int(policy(raw).revision) ~= ARGV[2]) then return {'OK', '0'} end
redis.call('HDEL', KEYS[1], ARGV[1])
return {'OK', '1'}
