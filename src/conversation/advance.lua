-- Writes a conversation, if it is the one that was read.
-- KEYS: conversation
-- ARGV: request (7 bytes), version read (0 = idle), ttl (ms), max age (ms; '' = as it was), sealed, end of the sealed state that was
--       read: of a database that was set back, a version may be another's
-- Reply: OK | MOVED | CEILING | DONE, done before, version, started, updated, expires, ceiling, sealed (OK: '')
local request, read = ARGV[1], tonumber(ARGV[2])
local c = load()
local now = clock(c)
local before = done_before(c, request)
if before ~= '' then return {'DONE', before, told(c, now)} end
local stands = status(c, now)
if stands == 'CEILING' then
  bury(c, request, 'C', now)
  return {'CEILING', '', told(nil, now)}
end
if (stands == 'STATE' and c.version or 0) ~= read or (read > 0 and string.sub(c.sealed, -#ARGV[6]) ~= ARGV[6]) then return {'MOVED', '', told(c, now)} end
local next
if stands == 'STATE' then
  next = {version = c.version + 1, started = c.started, ceiling = c.ceiling}
else
  -- Above every version this id ever had, also when nothing is left of it.
  next = {version = math.max(c and c.version + 1 or 0, now), started = now}
end
next.marks = c and c.marks or {}
next.updated, next.expires, next.sealed = now, now + tonumber(ARGV[3]), ARGV[5]
if ARGV[4] ~= '' then next.ceiling = next.started + tonumber(ARGV[4]) end
remember(next.marks, request, 'A')
save(next, now)
return {'OK', '', next.version, next.started, now, next.expires, next.ceiling or 0, ''}
