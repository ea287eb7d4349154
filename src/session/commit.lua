-- One commit, all or nothing.
-- KEYS: head, records
-- ARGV: incarnation, fence ('' = no lease may be live), lease ttl to renew (ms, '0' = none), writer, op_seq, revision sealed into the
--       puts, expected revision ('' = any), acknowledged revision, sealed attributes ('' = keep), puts, deletes, conditions, type names;
--       then field value …, field …, field revision …, code sealed_name …
-- Reply: OK base revision now | REPLAYED revision | OUT_OF_ORDER last revision | FENCED why | GONE | HELD sealed_owner expiry now | CONFLICT revision
--        | RESEAL revision | STALE revision | LOST | TYPES
local TYPES_MAX, SLICE = 64, 500
local incarnation, fence, ttl, writer, op = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local sealed_as, acknowledged = tonumber(ARGV[6]), tonumber(ARGV[8])
local puts, deletes, conditions, names = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local h = redis.call('HMGET', head, 'f', 'o', 'on', 'x', 'i', 'r', 'w', 't', 'hw', 'nt')
local records = KEYS[2]
local sentinel = redis.call('HEXISTS', records, SENTINEL)
if not h[1] then return {'GONE'} end
local revision, writers = tonumber(h[6]), h[7] or ''
local now = clock(h[8])

-- The op check comes before the fence check: a commit that happened is never reported FENCED.
local last = writer_op(writers, writer)
if op <= last then return {'REPLAYED', int(revision)} end
if h[5] ~= incarnation then return fenced(h[5]) end
if fence == '' then
  if h[2] ~= '' and tonumber(h[4]) > now then return {'HELD', h[3], h[4], int(now)} end
elseif h[1] ~= fence then
  return fenced(h[5])
end
if sentinel == 0 then return {'LOST'} end
if op > last + 1 then return {'OUT_OF_ORDER', int(last), int(revision)} end
if revision < acknowledged then return {'STALE', int(revision)} end
if ARGV[7] ~= '' and tonumber(ARGV[7]) ~= revision then return {'CONFLICT', int(revision)} end
if sealed_as ~= revision + 1 then return {'RESEAL', int(revision)} end

local put_at = 14
local delete_at = put_at + puts * 2
local condition_at = delete_at + deletes
local name_at = condition_at + conditions * 2
for n = 0, conditions - 1 do
  local at = condition_at + n * 2
  local value = redis.call('HGET', records, ARGV[at])
  local found = value and struct.unpack('>I8', string.sub(value, 9, 16)) or 0
  if found ~= tonumber(ARGV[at + 1]) then return {'CONFLICT', int(revision)} end
end
local new_types = {}
for n = 0, names - 1 do
  local at = name_at + n * 2
  if redis.call('HEXISTS', head, '#t' .. ARGV[at]) == 0 then
    new_types[#new_types + 1] = '#t' .. ARGV[at]
    new_types[#new_types + 1] = ARGV[at + 1]
  end
end
local types = tonumber(h[10] or 0) + #new_types / 2
if types > TYPES_MAX then return {'TYPES'} end

local counts, bytes = {}, {}
local function note(field, records_more, bytes_more)
  local code = string.byte(field) == 255 and string.sub(field, 1, 9) or string.sub(field, 1, 1)
  counts[code] = (counts[code] or 0) + records_more
  bytes[code] = (bytes[code] or 0) + bytes_more
end
for at = put_at, delete_at - 1, 2 do
  local old = redis.call('HSTRLEN', records, ARGV[at])
  note(ARGV[at], old == 0 and 1 or 0, #ARGV[at + 1] - old)
end
for at = put_at, delete_at - 1, SLICE * 2 do
  redis.call('HSET', records, unpack(ARGV, at, math.min(at + SLICE * 2, delete_at) - 1))
end
for at = delete_at, condition_at - 1 do
  local old = redis.call('HSTRLEN', records, ARGV[at])
  if old > 0 then
    note(ARGV[at], -1, -old)
    redis.call('HDEL', records, ARGV[at])
  end
end
for code, more in pairs(counts) do
  if more ~= 0 then redis.call('HINCRBY', head, '#n' .. code, int(more)) end
  if bytes[code] ~= 0 then redis.call('HINCRBY', head, '#b' .. code, int(bytes[code])) end
end
if #new_types > 0 then redis.call('HSET', head, 'nt', int(types), unpack(new_types)) end
if ARGV[9] ~= '' then redis.call('HSET', head, 'at', ARGV[9]) end
if ttl > 0 then redis.call('HSET', head, 'x', int(now + ttl)) end
redis.call('HSET', head, 'r', int(revision + 1), 'u', int(now), 't', int(now),
  'w', note_op(writers, writer, op, revision + 1, now, h[9]))
return {'OK', int(revision), int(revision + 1), int(now)}
