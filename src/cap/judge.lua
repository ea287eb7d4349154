-- How policies stand: what consume and peek share. Nothing here writes but `count`.
-- A policy `p` gets: used, limit, reset (0 = none), and for n: never, wait (ms; 0 = there is room now).
local now_us = server_us()
local now = math.floor(now_us / 1000)
local judge, count, unit = {}, {}, {}
local NOTHING = {}
-- What a policy begins with, but for the revision of its definition.
local RULE = '>c1BI8I8I8I8'

-- The first instant at which `need` units have come free, of {instant, units} pairs; nil when they never do.
local function freed(frees, need)
  table.sort(frees, function(x, y) return x[1] < y[1] end)
  for _, free in ipairs(frees) do
    need = need - free[2]
    if need <= 0 then return free[1] end
  end
  return nil
end

-- What the keys hold but for the first, of which only strings are read here; in one command, since each costs as much as the rest.
local raws = redis.call('MGET', unpack(KEYS, 2))

-- Until when the recipient's service window is open (ms; 0 = it is closed).
local function open_until()
  local till = raws[2] and struct.unpack('>I6', raws[2]) or 0
  return till > now and till or 0
end

-- Reads the policies that ARGV names from ARGV[2] on (packed: 8 bytes of the name, revision, the window's start and end), with their
-- keys from KEYS[4] on (2 each), and judges them. Gives them, or a refusal.
local function policies(recipient, n)
  local names, list = {}, {}
  for k = 2, #ARGV do names[k - 1] = string.sub(ARGV[k], 1, 8) end
  for k, raw in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
    if not raw then return nil, {'NO_POLICY', k} end
    local algorithm, flags, revision, _, limit, window = struct.unpack(RULE, raw)
    local known, start, ends = struct.unpack('>I8I6I6', ARGV[k + 1], 9)
    if revision ~= known then return nil, {'STALE_POLICY', k, raw} end
    -- With all its fields at once: a table that grows is made anew again and again.
    local p = {
      algorithm = algorithm, flags = flags, limit = limit, window = window,
      start = start, ends = ends,
      counter = KEYS[2 + 2 * k], key = KEYS[3 + 2 * k], recipient = recipient,
      raw = raws[1 + 2 * k], reserved = reservations(raws[2 + 2 * k]),
      since = 0, counted = 0, used = 0, reset = 0, never = false, wait = 0, frees = NOTHING, a = 0, b = 0, until_ = 0,
    }
    list[k] = p
    if p.algorithm == 'F' then
      p.since, p.counted = load_fixed(p.raw)
      -- A window that was counted in is not left again when a new primary's clock is behind.
      if p.since > p.start then return nil, {'STALE_WINDOW', p.since} end
      now = math.max(now, p.since)
    end
  end
  for _, p in ipairs(list) do
    if p.algorithm == 'F' and (now < p.start or now >= p.ends) then return nil, {'STALE_WINDOW', now} end
    if p.algorithm == 'U' then p.open = open_until() > 0 end
    judge[p.algorithm](p, n)
  end
  return list
end

-- limit (0 = unlimited), used, reset of one policy
local function told(reply, limit, used, reset)
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = limit, used, reset
end
