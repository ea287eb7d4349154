-- Brings an archive back, under a new fence and no lease; a live session becomes an archive if that is allowed.
-- KEYS: head, records of the archive, records of the live incarnation (or the archive's), records of the archive that must go (or the archive's)
-- ARGV: archive, live incarnation read before ('0' = none), replace ('1'), proposed fence (µs), archives read before, archive that must go ('' = none),
--       time to keep (ms)
-- Reply: OK fence revision | WRONG_STATE | NOT_FOUND | AGAIN | LOST
local h = redis.call('HMGET', head, 'f', 'i', 't', 'al', 'r')
local sentinel = redis.call('HEXISTS', KEYS[2], SENTINEL)
redis.call('EXISTS', KEYS[3], KEYS[4])
if not h[1] or redis.call('HEXISTS', head, 'a:' .. ARGV[1] .. ':k') == 0 then return {'NOT_FOUND'} end
if h[2] ~= ARGV[2] or (h[4] or '') ~= ARGV[5] then return {'AGAIN'} end
if h[2] ~= '0' and ARGV[3] ~= '1' then return {'WRONG_STATE'} end
if sentinel == 0 then return {'LOST'} end
local now, list = clock(h[3]), archives(h[4])
if h[2] ~= '0' then archive_live(h[2], list, now, tonumber(ARGV[7]), tonumber(h[5])) end
move_fields('a:' .. ARGV[1] .. ':', '')
drop_archive(ARGV[1], list)
if ARGV[6] ~= '' then
  drop_archive(ARGV[6], list)
  redis.call('UNLINK', KEYS[4])
end
local fence = int(math.max(tonumber(h[1]) + 1, tonumber(ARGV[4])))
local revision = int(tonumber(h[5]) + 1)
redis.call('HSET', head, 'f', fence, 's', fence, 'i', ARGV[1], 'o', '', 'on', '', 'x', '0', 't', int(now), 'r', revision,
  'al', table.concat(list, ','))
return {'OK', fence, revision}
