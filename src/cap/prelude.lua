-- Shared by the cap scripts. All cap keys of a namespace are in one slot; numbers are in clear, names are HMACs.
--   policies   hash: 8 bytes of the name's HMAC → c1 algorithm (F R G U) · B flags (1 fail open, 2 unlimited, 4 civil days, 8 from
--              the configuration) · I8 revision · I8 definition (the revision since which counters are the same) · I8 limit
--              (G: burst) · I8 window (ms; G: period, µs) · I6 updated (ms) · c8 fingerprint of the definition · B marks · marks · sealed
--   counter    F: c1 · I6 window's start · I5 used       R: c1 · (I6 time · B n) each, oldest first
--              G: c1 · I7 the instant (µs) at which the burst is whole again
--              U: a sorted set, recipient → the last send that a business began (ms)
--   reserved   entries of 8 send · I6 lapses · I7 a · I6 b · c8 recipient, as in a send. What F, R and U have reserved is only here
--              until it is confirmed; G counts it at once, and gives it back when it has lapsed.
--   send       c1 state: R reserved, C committed, F refunded · I6 till (R lapses, C and F are forgotten) · I5 how long it is
--              remembered · c8 fingerprint · B marks · marks · for each policy: c1 algorithm · c16 counter · I7 a · I6 b · I6 ends ·
--              c8 recipient (U only) · I5 limit · I5 used · I6 reset (ms, 0 = none)
--              What a send took: F a = window's start, b = n; R a = time, b = n; G a = from which instant (µs), b = how long (µs);
--              U a = time, b = the send before it (0 = none). From `ends` on nothing of it counts.
--   inbound    I6 until when the service window is open · marks
-- A mark: 7 bytes of a request id's HMAC · 1 what it did. Logical instants decide; a key's TTL only collects what is past them.
local COLLECT, NOBODY = 60000, string.rep('\0', 8)
local POLICY, SEND, RESERVED = '>c1BI8I8I8I8I6c8B', '>c1I6I5c8B', '>c8I6I7I6c8'
local PART, PART_UNIQUE = '>c1c16I7I6I6I5I5I6', '>c1c16I7I6I6c8I5I5I6'
local RESERVED_SIZE, RESERVED_MAX = 35, 256

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
