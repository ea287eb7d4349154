-- How policies stand: what consume and peek share. Nothing here writes but `count`.
-- A policy `p` gets: used, limit, reset (0 = none), and for n: never, wait (ms; 0 = there is room now).
local now_us = server_us()
local now = math.floor(now_us / 1000)
local judge, count, unit = {}, {}, {}

-- The first instant at which `need` units have come free, of {instant, units} pairs; nil when they never do.
local function freed(frees, need)
  table.sort(frees, function(x, y) return x[1] < y[1] end)
  for _, free in ipairs(frees) do
    need = need - free[2]
    if need <= 0 then return free[1] end
  end
  return nil
end

function judge.F(p, n)
  p.counted = p.stored[1] == p.start and p.stored[2] or 0
  p.used = p.counted
  p.frees = {}
  for _, r in ipairs(p.reserved) do
    if r.lapses > now and r.a == p.start then
      p.used = p.used + r.b
      p.frees[#p.frees + 1] = {r.lapses, r.b}
    end
  end
  p.reset, p.never, p.wait = p.ends, n > p.limit, 0
  if p.used + n > p.limit then
    p.wait = math.min(p.ends, freed(p.frees, p.used + n - p.limit) or p.ends) - now
  end
end

function count.F(p, n, lapses)
  p.a, p.b, p.until_ = p.start, n, p.ends
  if lapses then return end
  redis.call('SET', p.counter, struct.pack('>c1I6I5', 'F', p.start, p.counted + n), 'PX', int(p.ends - now + COLLECT))
end

-- Window's length and how many windows from now on; the sidecar knows where they end.
function unit.F(p, k)
  local left = k - math.max(0, p.limit - p.used)
  if left <= 0 then return '0', '0' end
  local lapsing = 0
  for _, free in ipairs(p.frees) do lapsing = lapsing + (free[1] < p.ends and free[2] or 0) end
  if left <= lapsing then return int(freed(p.frees, left) - now), '0' end
  return '0', int(math.ceil((left - lapsing) / p.limit))
end

function judge.R(p, n)
  p.log, p.used, p.frees = {}, 0, {}
  for _, one in ipairs(load_log(p.counter)) do
    if one[1] + p.window > now then
      p.log[#p.log + 1] = one
      p.used = p.used + one[2]
      p.frees[#p.frees + 1] = {one[1] + p.window, one[2]}
    end
  end
  for _, r in ipairs(p.reserved) do
    if r.lapses > now and r.a + p.window > now then
      p.used = p.used + r.b
      p.frees[#p.frees + 1] = {math.min(r.lapses, r.a + p.window), r.b}
    end
  end
  p.never, p.wait, p.reset = n > p.limit, 0, 0
  if #p.frees > 0 then p.reset = freed(p.frees, 1) end
  if p.used + n > p.limit and not p.never then p.wait = freed(p.frees, p.used + n - p.limit) - now end
end

function count.R(p, n, lapses)
  local last = p.log[#p.log]
  -- Never before the last one: a new primary's clock may be behind.
  p.a, p.b = math.max(now, last and last[1] or 0), n
  p.until_ = p.a + p.window
  if lapses then return end
  p.log[#p.log + 1] = {p.a, n}
  redis.call('SET', p.counter, pack_log(p.log), 'PX', int(p.until_ - now + COLLECT))
end

function unit.R(p, k)
  local at, turns = (k - 1) % p.limit + 1, math.floor((k - 1) / p.limit)
  local left, first = at - math.max(0, p.limit - p.used), now
  -- Units above a limit that was lowered must go first.
  if left > 0 then first = freed(p.frees, left + math.max(0, p.used - p.limit)) or now + p.window end
  return int(first + turns * p.window - now), '0'
end

function judge.G(p, n)
  local burst = p.limit * p.window
  p.whole, p.lapsing = load_bucket(p.counter), {}
  local kept = {}
  table.sort(p.reserved, function(x, y) return x.lapses < y.lapses end)
  for _, r in ipairs(p.reserved) do
    if r.lapses <= now then
      p.whole = p.whole - bucket_rest(r.a, r.b, r.lapses * 1000)
    else
      kept[#kept + 1] = r
    end
  end
  p.reserved = kept
  local level = math.max(0, p.whole - now_us)
  p.used, p.never, p.wait = math.ceil(level / p.window), n > p.limit, 0
  p.reset = level > 0 and math.ceil(p.whole / 1000) or 0
  if level + n * p.window > burst and not p.never then
    local whole, ready = p.whole, nil
    for _, r in ipairs(kept) do
      ready = whole + n * p.window - burst
      if ready <= r.lapses * 1000 then break end
      whole = whole - bucket_rest(r.a, r.b, r.lapses * 1000)
      ready = math.max(r.lapses * 1000, whole + n * p.window - burst)
      if ready == r.lapses * 1000 then break end
    end
    ready = ready or whole + n * p.window - burst
    p.wait = math.max(1, math.ceil((ready - now_us) / 1000))
  end
end

function count.G(p, n, lapses)
  p.a, p.b = math.max(p.whole, now_us), n * p.window
  p.whole = p.a + p.b
  p.until_ = math.ceil(p.whole / 1000)
  save_bucket(p.counter, p.whole, now)
end

function unit.G(p, k)
  local ready = math.max(p.whole, now_us) + (k - p.limit) * p.window
  return int(math.max(0, math.ceil((ready - now_us) / 1000))), '0'
end

-- The instant at which `k` of those counted have left the window: of the sorted set from `p.first` on, but for those that a
-- reservation holds longer, and of those that are reserved.
local function left(p, k)
  local best
  for taken = 0, math.min(k, #p.frees) do
    local instant, place = taken > 0 and p.frees[taken] or 0, k - taken
    if place > 0 then
      for _, held in ipairs(p.held) do
        if held <= place then place = place + 1 end
      end
      local one = redis.call('ZRANGE', p.counter, p.first + place - 1, p.first + place - 1, 'WITHSCORES')
      instant = one[2] and math.max(instant, tonumber(one[2]) + p.window) or nil
    end
    if instant and (not best or instant < best) then best = instant end
  end
  return best
end

function judge.U(p, n)
  local after = int(now - p.window)
  p.first = redis.call('ZCOUNT', p.counter, '-inf', after)
  p.used = redis.call('ZCOUNT', p.counter, '(' .. after, '+inf')
  p.before = tonumber(redis.call('ZSCORE', p.counter, p.recipient) or 0)
  -- Several reservations for one recipient hold its place until the last of them lapses.
  local known, holds = p.before > now - p.window, {}
  for _, r in ipairs(p.reserved) do
    if r.lapses > now and r.a + p.window > now then
      if r.recipient == p.recipient then known = true end
      holds[r.recipient] = math.max(holds[r.recipient] or 0, math.min(r.lapses, r.a + p.window))
    end
  end
  p.frees, p.held = {}, {}
  for recipient, till in pairs(holds) do
    local score = tonumber(redis.call('ZSCORE', p.counter, recipient) or 0)
    if score <= now - p.window then
      p.used = p.used + 1
      p.frees[#p.frees + 1] = till
    elseif till > score + p.window then
      p.frees[#p.frees + 1] = till
      p.held[#p.held + 1] = redis.call('ZRANK', p.counter, recipient) - p.first + 1
    end
  end
  table.sort(p.frees)
  table.sort(p.held)
  p.reset = p.used > 0 and left(p, 1) or 0
  p.never, p.wait = false, 0
  if p.open or known or p.flags % 4 >= 2 or p.used < p.limit then return end
  p.wait = left(p, p.used - p.limit + 1) - now
end

function count.U(p, n, lapses)
  p.a, p.b, p.until_ = 0, 0, now
  if p.open then return end
  -- Its instant names the send: one a recipient and millisecond, or refunding one of two would take both.
  p.a, p.b = math.max(now, p.before > 0 and p.before + 1 or 0), p.before
  p.until_ = p.a + p.window
  if lapses then return end
  redis.call('ZADD', p.counter, int(p.a), p.recipient)
  -- Counted again: this recipient itself may have been one of those whose time is over.
  local over = redis.call('ZCOUNT', p.counter, '-inf', int(now - p.window))
  if over > 0 then redis.call('ZREMRANGEBYRANK', p.counter, 0, math.min(over, 500) - 1) end
  redis.call('PEXPIRE', p.counter, int(p.window + p.a - now + COLLECT))
end

function unit.U(p, k)
  if p.flags % 4 >= 2 then return '0', '0' end
  local at, turns = (k - 1) % p.limit + 1, math.floor((k - 1) / p.limit)
  local behind, first = at - math.max(0, p.limit - p.used), now
  if behind > 0 then first = left(p, behind + math.max(0, p.used - p.limit)) or now + p.window end
  return int(first + turns * p.window - now), '0'
end

-- Until when the recipient's service window is open (ms; 0 = it is closed).
local function open_until()
  local raw = redis.call('GET', KEYS[3])
  local till = raw and struct.unpack('>I6', raw) or 0
  return till > now and till or 0
end

-- Reads the policies that ARGV names from `at` on (8 bytes of the name, revision, start, end: 4 each), with their keys from
-- KEYS[4] on (2 each), and judges them. Gives them, or a refusal.
local function policies(at, recipient, n)
  local names, list = {}, {}
  for k = at, #ARGV, 4 do names[#names + 1] = ARGV[k] end
  for k, raw in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
    if not raw then return nil, {'NO_POLICY', int(k)} end
    local p, from = policy(raw), at + (k - 1) * 4
    if int(p.revision) ~= ARGV[from + 1] then return nil, {'STALE_POLICY', int(k), raw} end
    p.start, p.ends = tonumber(ARGV[from + 2]), tonumber(ARGV[from + 3])
    p.counter, p.key, p.recipient = KEYS[2 + 2 * k], KEYS[3 + 2 * k], recipient
    list[k] = p
    if p.algorithm == 'F' then
      p.stored = {load_fixed(p.counter)}
      -- A window that was counted in is not left again when a new primary's clock is behind.
      if p.stored[1] > now and p.stored[1] <= p.start then now = p.stored[1] end
    end
  end
  for _, p in ipairs(list) do
    if p.algorithm == 'F' and (now < p.start or now >= p.ends) then return nil, {'STALE_WINDOW', int(now)} end
    if p.algorithm == 'U' then p.open = open_until() > 0 end
    p.reserved = reservations(p.key)
    judge[p.algorithm](p, n)
  end
  return list
end

-- limit (0 = unlimited), used, reset of one policy
local function told(reply, limit, used, reset)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = int(limit), int(used), int(reset)
end
