-- One snapshot of records.
-- KEYS: head, records
-- ARGV: incarnation, most bytes, field …
-- Reply: OK revision value|nil … | TOO_LARGE | MOVED (another incarnation is live, '0' = none) | GONE | LOST
local h = redis.call('HMGET', head, 'i', 'r')
local records = KEYS[2]
local sentinel = redis.call('HEXISTS', records, SENTINEL)
if not h[1] then return {'GONE'} end
if h[1] ~= ARGV[1] then return {'MOVED', h[1]} end
if sentinel == 0 then return {'LOST'} end
local values = {}
if #ARGV > 2 then
  if #ARGV > 4 then
    local size = 0
    for at = 3, #ARGV do size = size + redis.call('HSTRLEN', records, ARGV[at]) end
    if size > tonumber(ARGV[2]) then return {'TOO_LARGE'} end
  end
  values = redis.call('HMGET', records, unpack(ARGV, 3))
end
table.insert(values, 1, h[2])
table.insert(values, 1, 'OK')
return values
