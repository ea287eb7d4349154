-- Writes the next part of an upload and counts it. One that is counted already was sent again: nothing to do.
-- KEYS: index, the part
-- ARGV: generation, request, number of the part, its bytes, time for the next (ms)
-- Reply: OK | GONE | LOST (parts before it are not there)
local g, now = generation(ARGV[1]), clock(redis.call('HGET', index, 't'))
redis.call('EXISTS', KEYS[2])
if not g or g.state ~= 'U' or g.request ~= ARGV[2] or g.at < now then return {'GONE'} end
local number = tonumber(ARGV[3])
if number > g.parts then return {'LOST'} end
if number == g.parts then
  redis.call('SET', KEYS[2], ARGV[4])
  g.parts, g.stored = g.parts + 1, g.stored + #ARGV[4]
end
g.at = now + tonumber(ARGV[5])
put(g)
redis.call('HSET', index, 't', int(now))
return {'OK'}
