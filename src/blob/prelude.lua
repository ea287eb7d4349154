-- Shared by the blob scripts. The index (KEYS[1], a hash) holds:
--   k wrapped root key · nm sealed name · n the last generation begun · m the newest that was ever committed · t the last now (ms)
--   i live incarnation ('0' = none) · cur its current generation · al archived incarnations, oldest first
--   a:<incarnation> an archive, packed · g:<generation> a generation, packed · e the last error, sealed · et its time
-- A generation's state: U being uploaded (at = the deadline of its next part) · K kept · A archived · D fell out (at = until when
-- its readers have it) · X to be collected. Only X loses parts. No part, and nothing else here, has a TTL.
local index = KEYS[1]
local GENERATION, ARCHIVE = '>c1I8I8I4I8I8I8c16c16', '>I8I8I8'
local NONE = string.rep('\0', 16)

-- Never below what this index has seen: a new primary's clock may be behind.
local function clock(last)
  return math.max(server_ms(), tonumber(last or 0) or 0)
end

local function unpacked(id, packed)
  local g = {id = id}
  g.state, g.incarnation, g.at, g.parts, g.stored, g.size, g.saved, g.request, g.digest = struct.unpack(GENERATION, packed)
  return g
end

local function generation(id)
  local packed = redis.call('HGET', index, 'g:' .. id)
  return packed and unpacked(id, packed)
end

local function put(g)
  redis.call('HSET', index, 'g:' .. g.id, struct.pack(GENERATION, g.state, g.incarnation, g.at, g.parts, g.stored, g.size,
    g.saved, g.request, g.digest))
end

-- All of them, oldest first; their number is bounded at the beginning of an upload.
local function generations()
  local all, fields = {}, redis.call('HGETALL', index)
  for n = 1, #fields, 2 do
    if string.sub(fields[n], 1, 2) == 'g:' then all[#all + 1] = unpacked(string.sub(fields[n], 3), fields[n + 1]) end
  end
  table.sort(all, function(a, b) return tonumber(a.id) < tonumber(b.id) end)
  return all
end

local function change(g, state, at)
  g.state, g.at = state, at
  put(g)
end

-- Uploads that were begun before this moment cannot end any more.
local function end_uploads(all)
  for _, g in ipairs(all) do
    if g.state == 'U' then change(g, 'X', 0) end
  end
end

-- Whether the session of the same name lets a write through: its refusal, or nil. A fence of '' says that the writer holds none.
local function session(head)
  local h = redis.call('HMGET', head, 'f', 'o', 'on', 'x', 'i', 't')
  return function(fence, now)
    if fence ~= '' then
      if h[1] == fence then return nil end
      return {'FENCED', (h[5] or '0') == '0' and 'DELETED' or 'TAKEN_OVER'}
    end
    now = math.max(now, tonumber(h[6] or 0))
    if h[2] and h[2] ~= '' and tonumber(h[4]) > now then return {'HELD'} end
    return nil
  end
end

local function archives(al)
  local list = {}
  for incarnation in string.gmatch(al or '', '[^,]+') do list[#list + 1] = incarnation end
  return list
end

-- The live incarnation becomes the newest archive.
local function archive_live(incarnation, current, all, list, now, keep)
  for _, g in ipairs(all) do
    if g.state == 'K' then change(g, 'A', 0) end
  end
  redis.call('HSET', index, 'a:' .. incarnation, struct.pack(ARCHIVE, now + keep, now, tonumber(current)))
  list[#list + 1] = incarnation
end

-- Takes an archive away; its generations go at `at` in `state`.
local function drop_archive(incarnation, all, list, state, at)
  for _, g in ipairs(all) do
    if g.state == 'A' and int(g.incarnation) == incarnation then change(g, state, at) end
  end
  redis.call('HDEL', index, 'a:' .. incarnation)
  for place, one in ipairs(list) do
    if one == incarnation then
      table.remove(list, place)
      return
    end
  end
end

-- Drops the oldest archives above the most that are kept, never `except`. Says whether any went.
local function trim_archives(all, list, most, except, at)
  local dropped = false
  while #list > most do
    local oldest = list[1] == except and list[2] or list[1]
    drop_archive(oldest, all, list, 'D', at)
    dropped = true
  end
  return dropped
end
