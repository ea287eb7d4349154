-- The holder's own soft delete: the records become an archive, and a new incarnation begins under the same lease.
-- KEYS: head, records, records of the new incarnation, records of the archive that must go (or records again)
-- ARGV: incarnation, fence, proposed fence (µs), ttl (ms), writer, op_seq, archives read before, archive that must go ('' = none),
--       time to keep (ms), wrapped key, sealed owner, owner HMAC
-- Reply: OK fence incarnation revision | REPLAYED mine fence incarnation revision (mine: '1' = nobody has opened the session
--        since, so that the fence is the caller's) | OUT_OF_ORDER last revision | FENCED why | GONE | AGAIN | LOST
local h = redis.call('HMGET', head, 'f', 'i', 'r', 'w', 't', 'hw', 'al', 'o')
local sentinel = redis.call('HEXISTS', KEYS[2], SENTINEL)
redis.call('EXISTS', KEYS[3], KEYS[4])
if not h[1] then return {'GONE'} end
local now, revision, writers, op = clock(h[5]), tonumber(h[3]), h[4] or '', tonumber(ARGV[6])
local last = writer_op(writers, ARGV[5])
if op <= last then
  local mine = h[1] == ARGV[2] or (h[1] == h[2] and h[8] == ARGV[12])
  return {'REPLAYED', mine and '1' or '0', h[1], h[2], int(revision)}
end
if h[2] ~= ARGV[1] or h[1] ~= ARGV[2] then return fenced(h[2]) end
if sentinel == 0 then return {'LOST'} end
if op > last + 1 then return {'OUT_OF_ORDER', int(last), int(revision)} end
local fence = int(tonumber(ARGV[3]))
if tonumber(h[1]) >= tonumber(ARGV[3]) or (h[7] or '') ~= ARGV[7] then return {'AGAIN'} end

redis.call('HSET', KEYS[3], SENTINEL, '1')
local list = archives(h[7])
archive_live(h[2], list, now, tonumber(ARGV[9]), revision)
if ARGV[8] ~= '' then
  drop_archive(ARGV[8], list)
  redis.call('UNLINK', KEYS[4])
end
redis.call('HSET', head, 'f', fence, 'i', fence, 'k', ARGV[10], 'on', ARGV[11], 'c', int(now), 't', int(now),
  'x', int(now + tonumber(ARGV[4])), 'r', int(revision + 1), 'al', table.concat(list, ','),
  'w', note_op(writers, ARGV[5], op, revision + 1, now, h[6]))
return {'OK', fence, fence, int(revision + 1)}
