-- Shared by the session scripts. The head (KEYS[1], a hash) holds:
--   f fence · s since · o owner's HMAC ('' = released) · on sealed owner · hw the holder's writer · x lease expiry (ms)
--   i live incarnation ('0' = none) · r revision, never falling · w writers · t the last now (ms) · al archives, oldest first
--   of the live incarnation: k wrapped root key · nm sealed name · c created · u last write · at sealed attributes · nt other types
--     · #n<code> records · #b<code> bytes · #t<code> sealed type name; the same fields of an archive stand under a:<incarnation>:
--     beside its p purge time and d deletion time (ms), and r the revision at that time.
local head = KEYS[1]
local SENTINEL = string.rep('\0', 17)
local LIVE_FIELDS = {'k', 'c', 'u', 'at', 'nt'}

-- Never below what this head has seen: a new primary's clock may be behind.
local function clock(last)
  return math.max(server_ms(), tonumber(last or 0) or 0)
end

-- Moves what belongs to one incarnation to other field names, a bounded number of fields.
local function move_fields(from, to)
  local fields = redis.call('HKEYS', head)
  local moved, gone = {}, {}
  local function move(name)
    local value = redis.call('HGET', head, from .. name)
    if value then
      moved[#moved + 1] = to .. name
      moved[#moved + 1] = value
      gone[#gone + 1] = from .. name
    end
  end
  for _, name in ipairs(LIVE_FIELDS) do move(name) end
  for _, field in ipairs(fields) do
    if string.sub(field, 1, #from + 1) == from .. '#' then move(string.sub(field, #from + 1)) end
  end
  if #moved > 0 then
    redis.call('HSET', head, unpack(moved))
    redis.call('HDEL', head, unpack(gone))
  end
end

local function drop_fields(prefix)
  local gone = {}
  for _, field in ipairs(redis.call('HKEYS', head)) do
    if string.sub(field, 1, #prefix) == prefix then gone[#gone + 1] = field end
  end
  if #gone > 0 then redis.call('HDEL', head, unpack(gone)) end
end

local function archives(al)
  local list = {}
  for incarnation in string.gmatch(al or '', '[^,]+') do list[#list + 1] = incarnation end
  return list
end

-- Makes the live incarnation the newest archive.
local function archive_live(incarnation, list, now, keep, revision)
  move_fields('', 'a:' .. incarnation .. ':')
  redis.call('HSET', head, 'a:' .. incarnation .. ':p', int(now + keep), 'a:' .. incarnation .. ':d', int(now),
    'a:' .. incarnation .. ':r', int(revision))
  list[#list + 1] = incarnation
end

-- Takes an archive out of the list and its fields out of the head. The caller unlinks its records.
local function drop_archive(incarnation, list)
  drop_fields('a:' .. incarnation .. ':')
  for index, one in ipairs(list) do
    if one == incarnation then
      table.remove(list, index)
      return
    end
  end
end

local WRITER = '>c8I8I8I8'
local WRITERS = 8

-- The last op_seq of a writer, and where it stands in the packed list.
local function writer_op(packed, writer)
  for offset = 1, #packed, 32 do
    if string.sub(packed, offset, offset + 7) == writer then
      local _, op = struct.unpack(WRITER, packed, offset)
      return op, offset
    end
  end
  return 0, nil
end

-- The list with this writer's op noted; a ninth writer replaces the longest idle one that is not the holder's.
local function note_op(packed, writer, op, revision, now, holder)
  local entry = struct.pack(WRITER, writer, op, revision, now)
  local _, at = writer_op(packed, writer)
  if not at and #packed >= 32 * WRITERS then
    local oldest
    for offset = 1, #packed, 32 do
      local id, _, _, used = struct.unpack(WRITER, packed, offset)
      if id ~= holder and (not oldest or used < oldest) then
        oldest, at = used, offset
      end
    end
  end
  if not at then return packed .. entry end
  return string.sub(packed, 1, at - 1) .. entry .. string.sub(packed, at + 32)
end

-- Why a fence or an incarnation does not hold any more.
local function fenced(incarnation, owner)
  if incarnation == '0' then return {'FENCED', 'DELETED'} end
  return {'FENCED', 'TAKEN_OVER'}
end
