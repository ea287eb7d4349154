-- Takes the lease under a new fence, and makes the session when there is none.
-- KEYS: head, records of the incarnation meant (the one read before, or the proposed one)
-- ARGV: incarnation read before ('0' = none), proposed fence (µs), owner HMAC, sealed owner, take over ('1'), ttl (ms),
--       must exist ('1'), min revision, resume fence ('' = no), resume revision, writer, wrapped key, sealed name
-- Reply: OK fence revision incarnation created resumed last_op now | AGAIN | HELD sealed_owner expiry now | FENCED why |
--        NOT_FOUND | STALE revision | LOST
local read, proposed, owner, sealed_owner = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local ttl, min_revision, writer = tonumber(ARGV[6]), tonumber(ARGV[8]), ARGV[11]
local h = redis.call('HMGET', head, 'f', 's', 'o', 'on', 'x', 'i', 'r', 'w', 't')
local sentinel = redis.call('HEXISTS', KEYS[2], SENTINEL)
local fence, since, holder, incarnation = tonumber(h[1] or 0), h[2], h[3] or '', h[6] or '0'
local revision, writers = tonumber(h[7] or 0), h[8] or ''
local now = clock(h[9])

if incarnation ~= read then return {'AGAIN'} end
local exists = incarnation ~= '0'
local resumed = 0
if ARGV[9] ~= '' then
  if not exists then return {'FENCED', 'DELETED'} end
  if holder ~= owner or tonumber(ARGV[9]) < tonumber(since) then return {'FENCED', 'TAKEN_OVER'} end
  if revision < tonumber(ARGV[10]) then return {'STALE', int(revision)} end
  resumed = 1
end
if exists and holder ~= '' and holder ~= owner and tonumber(h[5]) > now and ARGV[5] ~= '1' then
  return {'HELD', h[4], h[5], int(now)}
end
if not exists and ARGV[7] == '1' then return {'NOT_FOUND'} end
if revision < min_revision then return {'STALE', int(revision)} end
if exists and sentinel == 0 then return {'LOST'} end

local new_fence = math.max(fence + 1, proposed)
if not exists then
  if new_fence ~= proposed then return {'AGAIN'} end
  incarnation = int(proposed)
  redis.call('HSET', KEYS[2], SENTINEL, '1')
  redis.call('HSET', head, 'v', '1', 'i', incarnation, 'k', ARGV[12], 'nm', ARGV[13], 'c', int(now), 'r', int(revision))
end
if not (exists and holder == owner) then since = int(new_fence) end
redis.call('HSET', head, 'f', int(new_fence), 's', since, 'o', owner, 'on', sealed_owner, 'hw', writer,
  'x', int(now + ttl), 't', int(now))
local last_op = writer_op(writers, writer)
return {'OK', int(new_fence), int(revision), incarnation, exists and '0' or '1', int(resumed), int(last_op), int(now)}
