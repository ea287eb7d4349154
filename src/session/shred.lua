-- Unlinks incarnations for good: those named, or those whose time has come; the head too when nothing of the owner is left.
-- KEYS: head, blob index of the same owner, records of each incarnation named
-- ARGV: live incarnation read before ('0' = none), archives read before, proposed fence (µs), only if purge time has passed ('1'), incarnation …
-- Reply: OK unlinked left (1 = the head stays) earliest_purge ('0' = none) | AGAIN | GONE
local h = redis.call('HMGET', head, 'f', 'i', 't', 'al')
local blob = redis.call('EXISTS', KEYS[2])
for n = 3, #KEYS do redis.call('EXISTS', KEYS[n]) end
if not h[1] then return {'GONE'} end
if h[2] ~= ARGV[1] or (h[4] or '') ~= ARGV[2] then return {'AGAIN'} end
local now, list, live, unlinked = clock(h[3]), archives(h[4]), h[2], 0
for n = 5, #ARGV do
  local incarnation = ARGV[n]
  local due = true
  if ARGV[4] == '1' then
    local purge_at = redis.call('HGET', head, 'a:' .. incarnation .. ':p')
    due = purge_at and tonumber(purge_at) <= now
  end
  if due then
    redis.call('UNLINK', KEYS[n - 2])
    unlinked = unlinked + 1
    if incarnation == live then
      live = '0'
      local fence = int(math.max(tonumber(h[1]) + 1, tonumber(ARGV[3])))
      for _, name in ipairs(LIVE_FIELDS) do redis.call('HDEL', head, name) end
      drop_fields('#')
      redis.call('HSET', head, 'f', fence, 's', fence, 'i', '0', 'o', '', 'on', '', 'x', '0', 't', int(now))
    else
      drop_archive(incarnation, list)
    end
  end
end
if live == '0' and #list == 0 and blob == 0 then
  redis.call('DEL', head)
  return {'OK', int(unlinked), '0', '0'}
end
local earliest = 0
for _, incarnation in ipairs(list) do
  local purge_at = tonumber(redis.call('HGET', head, 'a:' .. incarnation .. ':p'))
  if earliest == 0 or purge_at < earliest then earliest = purge_at end
end
redis.call('HSET', head, 'al', table.concat(list, ','))
return {'OK', int(unlinked), '1', int(earliest)}
