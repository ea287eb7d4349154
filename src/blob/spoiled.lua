-- Notes that a generation was found damaged: no save is taken for unchanged because of it.
-- KEYS: index
-- ARGV: generation, sealed error
-- Reply: OK | GONE
local g = generation(ARGV[1])
if not g then return {'GONE'} end
g.digest = NONE
put(g)
redis.call('HSET', index, 'e', ARGV[2], 'et', int(clock(redis.call('HGET', index, 't'))))
return {'OK'}
