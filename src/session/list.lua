-- One step of a walk over the records.
-- KEYS: head, records
-- ARGV: incarnation, scan cursor, fields to look at (≤ 500)
-- Reply: OK cursor field value … | MOVED | GONE | LOST
local h = redis.call('HMGET', head, 'i')
local records = KEYS[2]
local sentinel = redis.call('HEXISTS', records, SENTINEL)
if not h[1] then return {'GONE'} end
if h[1] ~= ARGV[1] then return {'MOVED', h[1]} end
if sentinel == 0 then return {'LOST'} end
local step = redis.call('HSCAN', records, ARGV[2], 'COUNT', ARGV[3])
local reply = step[2]
table.insert(reply, 1, step[1])
table.insert(reply, 1, 'OK')
return reply
