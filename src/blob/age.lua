-- Marks what has run out as to be collected: uploads that nobody goes on with, generations without readers, archives.
-- KEYS: index
-- ARGV: time an error is remembered (ms)
-- Reply: OK now | GONE
local b = redis.call('HMGET', index, 'i', 'al', 't', 'et')
if redis.call('EXISTS', index) == 0 then return {'GONE'} end
local all, list, now = generations(), archives(b[2]), clock(b[3])
for _, g in ipairs(all) do
  if (g.state == 'U' or g.state == 'D') and g.at < now then change(g, 'X', 0) end
end
for n = #list, 1, -1 do
  local packed = redis.call('HGET', index, 'a:' .. list[n])
  if not packed or struct.unpack(ARCHIVE, packed) <= now then drop_archive(list[n], all, list, 'X', 0) end
end
if b[4] and tonumber(b[4]) + tonumber(ARGV[1]) < now then redis.call('HDEL', index, 'e', 'et') end
redis.call('HSET', index, 'al', table.concat(list, ','), 't', int(now))
return {'OK', int(now)}
