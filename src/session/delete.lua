-- Soft delete by anybody: the live incarnation becomes an archive, under a new fence and no lease.
-- KEYS: head, records, records of the archive that must go (or records again)
-- ARGV: incarnation, proposed fence (µs), archives read before, archive that must go ('' = none), time to keep (ms)
-- Reply: OK | AGAIN | GONE
local h = redis.call('HMGET', head, 'f', 'i', 't', 'al', 'r')
redis.call('EXISTS', KEYS[2], KEYS[3])
if not h[1] then return {'GONE'} end
if h[2] ~= ARGV[1] or (h[4] or '') ~= ARGV[3] then return {'AGAIN'} end
local now = clock(h[3])
local list = archives(h[4])
archive_live(h[2], list, now, tonumber(ARGV[5]), tonumber(h[5]))
if ARGV[4] ~= '' then
  drop_archive(ARGV[4], list)
  redis.call('UNLINK', KEYS[3])
end
local fence = int(math.max(tonumber(h[1]) + 1, tonumber(ARGV[2])))
redis.call('HSET', head, 'f', fence, 's', fence, 'i', '0', 'o', '', 'on', '', 'x', '0', 't', int(now), 'al', table.concat(list, ','))
return {'OK'}
