-- Ends a lease: by its holder (fence given) or by an admin (a new fence, so that the holder's writes are refused).
-- KEYS: head
-- ARGV: the holder's fence ('' = break it), proposed fence (µs), the fence that is to be broken ('0' = whichever is there)
-- Reply: OK was_live fence | FENCED why | GONE | NONE (nothing to break) | OTHER fence (not that one any more)
local h = redis.call('HMGET', head, 'f', 'o', 'x', 'i', 't')
if not h[1] then return {'GONE'} end
local now = clock(h[5])
local live = h[2] ~= '' and tonumber(h[3]) > now
if ARGV[1] ~= '' then
  if h[1] ~= ARGV[1] then return fenced(h[4]) end
  redis.call('HSET', head, 'o', '', 'on', '', 'x', '0', 't', int(now))
  return {'OK', live and '1' or '0', h[1]}
end
if h[4] == '0' then return {'NONE'} end
if ARGV[3] ~= '0' and h[1] ~= ARGV[3] then return {'OTHER', h[1]} end
local fence = int(math.max(tonumber(h[1]) + 1, tonumber(ARGV[2])))
redis.call('HSET', head, 'f', fence, 's', fence, 'o', '', 'on', '', 'x', '0', 't', int(now))
return {'OK', live and '1' or '0', fence}
