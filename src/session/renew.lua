-- Keeps the lease. A lapsed lease whose fence is still the current one simply goes on.
-- KEYS: head
-- ARGV: incarnation, fence, ttl (ms)
-- Reply: OK now revision | FENCED why | GONE
local h = redis.call('HMGET', head, 'f', 'i', 't', 'r')
if not h[1] then return {'GONE'} end
if h[1] ~= ARGV[2] or h[2] ~= ARGV[1] then return fenced(h[2]) end
local now = clock(h[3])
redis.call('HSET', head, 'x', int(now + tonumber(ARGV[3])), 't', int(now))
return {'OK', int(now), h[4]}
