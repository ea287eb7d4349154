-- Shared by the conversation scripts. A conversation (KEYS[1], a string):
--   active: 'A' · flags: 0..4 marks, +8 a ceiling · 6 version · 6 started · 6 updated · 6 expires (silence) · 6 ceiling, if there is
--     one · marks, the newest first · the sealed state
--   ended:  'T' · flags: 0..4 marks · 6 version · 6 forgotten at · marks
-- All instants in ms. A mark: 7 bytes of a request id's HMAC · 1 what it did: A advanced, C met the ceiling, R reset one, r reset
-- none, T touched. Logical instants decide; the key's TTL only collects what is past them.
local COLLECT, MARKS = 60000, 4

local function int(n)
  return string.format('%.0f', n)
end

local function load()
  local raw = redis.call('GET', KEYS[1])
  if not raw then return nil end
  local c = {marks = {}}
  local flags, at
  c.kind, flags, c.version, at = struct.unpack('>c1BI6', raw)
  if c.kind == 'A' then
    c.started, c.updated, c.expires, at = struct.unpack('>I6I6I6', raw, at)
    if flags >= 8 then
      flags = flags - 8
      c.ceiling, at = struct.unpack('>I6', raw, at)
    end
  else
    c.till, at = struct.unpack('>I6', raw, at)
  end
  for n = 1, flags do
    c.marks[n], at = string.sub(raw, at, at + 7), at + 8
  end
  c.sealed = string.sub(raw, at)
  return c
end

-- Never before what was written last: a new primary's clock may be behind.
local function clock(c)
  return math.max(server_ms(), c and c.updated or 0)
end

-- IDLE, STATE, or CEILING: not silent for too long, but too old.
local function status(c, now)
  if not c or c.kind ~= 'A' or now >= c.expires then return 'IDLE' end
  if c.ceiling and now >= c.ceiling then return 'CEILING' end
  return 'STATE'
end

local function found(c, request)
  for n = 1, c and #c.marks or 0 do
    if string.sub(c.marks[n], 1, 7) == request then return string.sub(c.marks[n], 8) end
  end
  return ''
end

local function remember(c, request, what)
  if what == 'T' and c.marks[1] and string.sub(c.marks[1], 8) == 'T' then table.remove(c.marks, 1) end
  table.insert(c.marks, 1, request .. what)
  c.marks[MARKS + 1] = nil
end

local function save(c, now)
  local raw = struct.pack('>c1BI6I6I6I6', 'A', #c.marks + (c.ceiling and 8 or 0), c.version, c.started, c.updated, c.expires) ..
    (c.ceiling and struct.pack('>I6', c.ceiling) or '') .. table.concat(c.marks) .. c.sealed
  redis.call('SET', KEYS[1], raw, 'PX', int(c.expires - now + COLLECT))
end

-- What is left of a conversation that was ended: its version and who ended it.
local function bury(c, request, what, now)
  local marks = c and c.marks or {}
  local grave = {marks = marks}
  remember(grave, request, what)
  -- One that was ended before is forgotten when it would have been.
  local till = c and c.kind == 'T' and math.max(c.till, now + COLLECT) or math.max(now, c and c.expires or 0) + COLLECT
  redis.call('SET', KEYS[1], struct.pack('>c1BI6I6', 'T', #marks, c and c.version or 0, till) .. table.concat(marks),
    'PX', int(till - now))
end

-- version, started, updated, expires, ceiling (0 = none), sealed; all 0 when idle
local function told(c, now)
  if status(c, now) ~= 'STATE' then return '0', '0', '0', '0', '0', '' end
  return int(c.version), int(c.started), int(c.updated), int(c.expires), int(c.ceiling or 0), c.sealed
end
