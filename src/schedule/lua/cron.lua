-- Reads, sets or deletes a recurring job.
-- ARGV: buckets; sealed name; 'get', 'set', 'delete' or 'gone'; blinded id; the slot it must be at ('' where it must not be there); next
--   slot; the sealed cron
-- Reply: {'OK', now, entry or ''} or {'MOVED'}. A deleted one leaves its slot for a minute: set again meanwhile it misses none
local CRON, KEEP = '>I6I6I6', 60000
local id = ARGV[4]
local entry = redis.call('HGET', C, id)
if ARGV[3] == 'get' then return {'OK', int(now), entry or ''} end
local grave = id .. 'x'
if ARGV[3] == 'gone' then
  if entry and #entry == 18 then redis.call('HDEL', C, id) end
  redis.call('ZREM', CN, grave)
  return {'OK', int(now), ''}
end
local at = entry and int((struct.unpack(CRON, entry))) or ''
if at ~= ARGV[5] then return {'MOVED'} end
if ARGV[3] == 'delete' then
  if not entry or #entry == 18 then return {'OK', int(now), ''} end
  redis.call('HSET', C, id, string.sub(entry, 1, 18))
  redis.call('ZREM', CN, id)
  redis.call('ZADD', CN, int(now + KEEP), grave)
  return {'OK', int(now), entry}
end
redis.call('HSETNX', H, 'nm', ARGV[2])
local last, number = 0, 0
if entry then
  local _
  _, last, number = struct.unpack(CRON, entry)
end
redis.call('HSET', C, id, struct.pack(CRON, tonumber(ARGV[6]), last, number) .. ARGV[7])
redis.call('ZREM', CN, grave)
redis.call('ZADD', CN, ARGV[6], id)
finish()
return {'OK', int(now), entry or ''}
