-- One step of a walk over the records.
-- KEYS: head, records
-- ARGV: incarnation, scan cursor, fields to look at at once, most to look at, records wanted, bytes wanted, type code ('' = all)
-- Reply: OK cursor field value … | MOVED (another incarnation is live, '0' = none) | GONE | LOST
local at_once, look, wanted, bytes, code = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local h = redis.call('HMGET', head, 'i')
local records = KEYS[2]
local sentinel = redis.call('HEXISTS', records, SENTINEL)
if not h[1] then return {'GONE'} end
if h[1] ~= ARGV[1] then return {'MOVED', h[1]} end
if sentinel == 0 then return {'LOST'} end
-- HSCAN gives a few more fields than asked for. So no more are asked for than half of what is wanted: a page that must be cut
-- would be looked at twice, and in between what it holds may change.
at_once = math.max(math.min(at_once, math.floor(wanted / 2)), 1)
local cursor, looked, size, reply = ARGV[2], 0, 0, {'OK', '0'}
repeat
  local step = redis.call('HSCAN', records, cursor, 'COUNT', at_once)
  cursor = step[1]
  for at = 1, #step[2], 2 do
    local field = step[2][at]
    if string.sub(field, 1, #code) == code then
      reply[#reply + 1] = field
      reply[#reply + 1] = step[2][at + 1]
      size = size + #step[2][at + 1]
    end
  end
  looked = looked + math.max(#step[2] / 2, 1)
until cursor == '0' or #reply - 2 >= wanted or looked >= look or size >= bytes
reply[2] = cursor
return reply
