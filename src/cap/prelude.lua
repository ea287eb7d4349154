-- What most cap scripts share.
local function policy(packed)
  local p = {}
  p.algorithm, p.flags, p.revision, p.definition, p.limit, p.window, p.updated, p.fingerprint, p.marks, p.at =
    struct.unpack(POLICY, packed)
  return p
end

-- Reservations of one counter.
local function reservations(raw)
  local list = {}
  for at = 1, raw and #raw or 0, RESERVED_SIZE do
    local r = {}
    r.send, r.lapses, r.a, r.b, r.recipient = struct.unpack(RESERVED, raw, at)
    list[#list + 1] = r
  end
  return list
end

local function pack_reservations(list)
  local packed = {}
  for n, r in ipairs(list) do packed[n] = struct.pack(RESERVED, r.send, r.lapses, r.a, r.b, r.recipient) end
  return table.concat(packed)
end

-- A send, if one is remembered. `parts` are what it took, in the order of its policies.
local function load_send(raw)
  if not raw then return nil end
  local s, marks, at = {parts = {}}, 0, 1
  s.state, s.till, s.keep, s.fingerprint, marks, at = struct.unpack(SEND, raw)
  s.marks, at = marks_in(raw, at, marks)
  while at <= #raw do
    local p = {recipient = NOBODY}
    if string.sub(raw, at, at) == 'U' then
      p.algorithm, p.counter, p.a, p.b, p.ends, p.recipient, p.limit, p.used, p.reset, at = struct.unpack(PART_UNIQUE, raw, at)
    else
      p.algorithm, p.counter, p.a, p.b, p.ends, p.limit, p.used, p.reset, at = struct.unpack(PART, raw, at)
    end
    s.parts[#s.parts + 1] = p
  end
  return s
end

local function save_send(key, s, stays)
  local packed = struct.pack(SEND, s.state, s.till, s.keep, s.fingerprint, #s.marks) .. table.concat(s.marks)
  for _, p in ipairs(s.parts) do
    packed = packed .. (p.algorithm == 'U' and
      struct.pack(PART_UNIQUE, p.algorithm, p.counter, p.a, p.b, p.ends, p.recipient, p.limit, p.used, p.reset) or
      struct.pack(PART, p.algorithm, p.counter, p.a, p.b, p.ends, p.limit, p.used, p.reset))
  end
  redis.call('SET', key, packed, 'PX', int(stays))
end

-- What is left, at instant `at` (µs), of what a send took from a bucket.
local function bucket_rest(a, b, at)
  return math.max(0, math.min(b, a + b - at))
end

local function load_bucket(raw)
  if not raw then return 0 end
  local _, whole = struct.unpack('>c1I7', raw)
  return whole
end

local function save_bucket(key, whole, now)
  redis.call('SET', key, struct.pack('>c1I7', 'G', whole), 'PX', int(math.max(0, math.ceil(whole / 1000) - now) + COLLECT))
end

local function load_log(raw)
  local log = {}
  for at = 2, raw and #raw or 0, 7 do
    local time, n = struct.unpack('>I6B', raw, at)
    log[#log + 1] = {time, n}
  end
  return log
end

local function pack_log(log)
  local packed = {'R'}
  for n, one in ipairs(log) do packed[n + 1] = struct.pack('>I6B', one[1], one[2]) end
  return table.concat(packed)
end

local function load_fixed(raw)
  if not raw then return 0, 0 end
  local _, start, used = struct.unpack('>c1I6I5', raw)
  return start, used
end
