-- Jobs that their cap does not allow now, or never.
-- ARGV: buckets; chance (unused); then packed each: number, attempts so far, kind (D: due after ms · X: dead, ms is the reason), ms
-- Reply: {'OK', how many were changed} or {'NONE'}, {'NEED', …}
if not head[1] then return {'NONE'} end
local items = {}
for n = 3, #ARGV do
  local i = {}
  i.number, i.attempts, i.kind, i.ms = struct.unpack('>I6I2c1I6', ARGV[n])
  items[#items + 1] = i
  bucket(i.number)
end
if needs > 0 then return wanting() end
local changed = 0
for _, i in ipairs(items) do
  local j = load(i.number)
  -- Somebody else may have leased it meanwhile, or changed it.
  if j and j.state == 'P' and j.attempts == i.attempts and redis.call('ZREM', RDY, ready_member(i.number, j)) == 1 then
    changed = changed + 1
    if i.kind == 'X' then
      final(i.number, j, 'X', i.ms)
    else
      j.due = math.min(now + i.ms, LATEST)
      enter(i.number, j)
    end
    store(i.number, j)
  end
end
finish()
return {'OK', int(changed)}
