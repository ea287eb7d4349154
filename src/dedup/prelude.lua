-- Shared by the claim scripts. A claim (KEYS[1], a string):
--   1 state: P in progress, D done, R released · 8 fence (µs of the claim, or more) · 6 until (ms): P when its time runs out, D when
--   it is free again, R when it is forgotten · 5 retention (ms) · 1 flags: 0..4 marks, +8 a fingerprint · 8 fingerprint, if there is
--   one · marks, the newest first · the sealed result, if there is one
-- A mark: 7 bytes of a request id's HMAC · 1 what it did: N new, n new and done, T taken over, t taken over and done, C completed,
--   E extended, R released.
-- Logical instants decide; the key's TTL only collects what is past them.
local HEAD, COLLECT = '>c1I8I6I5B', 60000

local function load()
  local raw = redis.call('GET', KEYS[1])
  if not raw then return nil end
  local c = {}
  local flags, at
  c.state, c.fence, c.till, c.retention, flags, at = struct.unpack(HEAD, raw)
  c.fingerprint = ''
  if flags >= 8 then
    flags = flags - 8
    c.fingerprint, at = string.sub(raw, at, at + 7), at + 8
  end
  c.marks, at = marks_in(raw, at, flags)
  c.result = string.sub(raw, at)
  return c
end

-- Never before the claim was made: a new primary's clock may be behind.
local function clock(c)
  local now = server_us()
  return c and math.max(now, c.fence) or now
end

-- When the time for the work is over (ms): the whole of it has passed then, to the microsecond.
local function in_progress_till(us, ttl)
  return math.ceil(us / 1000) + tonumber(ttl)
end

-- Until when an unfinished claim is remembered (ms).
local function abandoned(c)
  return math.max(c.till, math.floor(c.fence / 1000) + c.retention)
end

local function free(c, now)
  if not c or c.state == 'R' then return true end
  return now >= (c.state == 'D' and c.till or abandoned(c))
end

local function save(c, now)
  local flags = #c.marks + (c.fingerprint ~= '' and 8 or 0)
  local ends = c.state == 'P' and abandoned(c) or c.till
  redis.call('SET', KEYS[1], struct.pack(HEAD, c.state, c.fence, c.till, c.retention, flags) .. c.fingerprint ..
    table.concat(c.marks) .. c.result, 'PX', int(ends - now + COLLECT))
end

