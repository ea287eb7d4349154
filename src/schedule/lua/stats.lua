-- Settings, counts and totals.
-- ARGV: buckets
-- Reply: {'OK', now, scheduled, ready, in groups, groups, leased, done, dead, crons, due of the first in turn or 0, next due or 0, then fields
--   and values of the head} or {'NONE'}
if not head[1] then return {'NONE'} end
local turn = redis.call('ZRANGE', RDY, 0, 0)[1]
local reply = {'OK', int(now)}
for _, zset in ipairs({DUE, RDY, GRP}) do reply[#reply + 1] = int(redis.call('ZCARD', zset)) end
reply[#reply + 1] = int(redis.call('HLEN', GA))
for _, zset in ipairs({LSE, DONE, DEAD, CN}) do reply[#reply + 1] = int(redis.call('ZCARD', zset)) end
reply[#reply + 1] = turn and int((struct.unpack('>I6', turn))) or '0'
reply[#reply + 1] = first(DUE)
for _, value in ipairs(redis.call('HGETALL', H)) do reply[#reply + 1] = value end
return reply
