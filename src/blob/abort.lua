-- Gives an upload up, and notes why.
-- KEYS: index
-- ARGV: generation ('' = none was begun), request, sealed error ('' = none)
-- Reply: OK | GONE
if redis.call('EXISTS', index) == 0 then return {'GONE'} end
local g = ARGV[1] ~= '' and generation(ARGV[1])
if g and g.state == 'U' and g.request == ARGV[2] then change(g, 'X', 0) end
if ARGV[3] ~= '' then
  redis.call('HSET', index, 'e', ARGV[3], 'et', int(clock(redis.call('HGET', index, 't'))))
end
return {'OK'}
