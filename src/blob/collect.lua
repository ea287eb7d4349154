-- Unlinks the last parts of a generation that is to be collected; with the first of them the generation is gone.
-- KEYS: index, manifests, the parts (≤ 500)
-- ARGV: generation, parts it still has
-- Reply: OK parts_left | AGAIN | GONE | KEPT
local g = generation(ARGV[1])
redis.call('EXISTS', unpack(KEYS, 2))
if not g then return {'GONE'} end
if g.state ~= 'X' then return {'KEPT'} end
if g.parts ~= tonumber(ARGV[2]) then return {'AGAIN'} end
if #KEYS > 2 then redis.call('UNLINK', unpack(KEYS, 3)) end
g.parts = g.parts - (#KEYS - 2)
if g.parts > 0 then
  put(g)
else
  redis.call('HDEL', KEYS[2], g.id)
  redis.call('HDEL', index, 'g:' .. g.id)
end
return {'OK', int(g.parts)}
