#!lua flags=allow-oom
-- Sets an owner's score in the index, also when memory is full: what gives memory back goes through here.
-- KEYS: index bucket
-- ARGV: tag, score, only if the owner is listed ('1')
-- Reply: 1 set, 0 left alone
if ARGV[3] == '1' and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1
