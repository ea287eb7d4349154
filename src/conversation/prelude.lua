-- Shared by the conversation scripts. A conversation (KEYS[1], a string):
--   active: 'A' · flags: 0..4 marks, +8 a ceiling · 6 version · 6 started · 6 updated · 6 expires (silence) · 6 ceiling, if there is
--     one · marks, the newest first · the sealed state
--   ended:  'T' · flags: 0..4 marks · 6 version · 6 forgotten at · marks
-- All instants in ms. A mark: 7 bytes of a request id's HMAC · 1 what it did: A advanced, C met the ceiling, R reset one, r reset
-- none, T touched. Logical instants decide; the key's TTL only collects what is past them.
local COLLECT = 60000

local function load()
  local raw = redis.call('GET', KEYS[1])
  if not raw then return nil end
  local c = {}
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
  c.marks, at = marks_in(raw, at, flags)
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

-- What a request did before; '' is nothing.
local function done_before(c, request)
  return found(c and c.marks, request) or ''
end

local function save(c, now)
  local raw = struct.pack('>c1BI6I6I6I6', 'A', #c.marks + (c.ceiling and 8 or 0), c.version, c.started, c.updated, c.expires) ..
    (c.ceiling and struct.pack('>I6', c.ceiling) or '') .. table.concat(c.marks) .. c.sealed
  redis.call('SET', KEYS[1], raw, 'PX', int(c.expires - now + COLLECT))
end

-- What is left of a conversation that was ended: its version and who ended it.
local function bury(c, request, what, now)
  local marks = c and c.marks or {}
  remember(marks, request, what)
  -- One that was ended before is forgotten when it would have been.
  local till = c and c.kind == 'T' and math.max(c.till, now + COLLECT) or math.max(now, c and c.expires or 0) + COLLECT
  redis.call('SET', KEYS[1], struct.pack('>c1BI6I6', 'T', #marks, c and c.version or 0, till) .. table.concat(marks),
    'PX', int(till - now))
end

-- version, started, updated, expires, ceiling (0 = none), sealed; all 0 when idle
local function told(c, now)
  if status(c, now) ~= 'STATE' then return 0, 0, 0, 0, 0, '' end
  return c.version, c.started, c.updated, c.expires, c.ceiling or 0, c.sealed
end
