-- What the claim scripts share.
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

