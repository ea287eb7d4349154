#!lua flags=allow-oom
-- Sets an owner's score in the index, also when memory is full: what gives memory back goes through here.
-- KEYS: index bucket
-- ARGV: tag, score, what must hold now ('' = nothing, 'listed', or the score it must have)
-- Reply: 1 set, 0 left alone
local now = redis.call('ZSCORE', KEYS[1], ARGV[1])
if ARGV[3] ~= '' and not now then return 0 end
if ARGV[3] ~= '' and ARGV[3] ~= 'listed' and tonumber(now) ~= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
