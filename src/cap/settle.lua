-- Makes a reservation final (confirm), or gives back what a send took (refund).
-- KEYS: send, then for each of its policies: counter, reserved
-- ARGV: request (7 bytes), K to confirm or F to refund, the send's short name (8 bytes), how long a refund is remembered (ms)
-- Reply: CONFIRMED | REFUNDED | LAPSED | NONE | MOVED (its counters are not those named)
local now_us = server_us()
local now = math.floor(now_us / 1000)
local s = load_send(redis.call('GET', KEYS[1]))
if not s or (s.state ~= 'R' and s.till <= now) then return {'NONE'} end
local before = found(s.marks, ARGV[1])
if before == 'K' then return {'CONFIRMED'} end
if before == 'F' then return {'REFUNDED'} end
local confirm = ARGV[2] == 'K'
if s.state == 'F' then return {confirm and 'LAPSED' or 'REFUNDED'} end
if s.state == 'R' and s.till <= now then return {'LAPSED'} end
if s.state == 'C' and confirm then return {'CONFIRMED'} end
if #s.parts * 2 + 1 ~= #KEYS then return {'MOVED'} end
for k, p in ipairs(s.parts) do
  if string.sub(KEYS[2 * k], -16) ~= p.counter then return {'MOVED'} end
end

-- Every key is looked at before the first write: while a slot moves, one that is absent refuses the call here, with nothing done.
redis.call('EXISTS', unpack(KEYS))

-- The longer of what a key has left and what it needs.
local function stays(key, ends)
  return int(math.max(redis.call('PTTL', key), ends - now + COLLECT))
end

local add, take = {}, {}

function add.F(key, p)
  local start, used = load_fixed(redis.call('GET', key))
  if start > p.a then return end
  redis.call('SET', key, struct.pack('>c1I6I5', 'F', p.a, (start == p.a and used or 0) + p.b), 'PX', stays(key, p.ends))
end

function take.F(key, p)
  local start, used = load_fixed(redis.call('GET', key))
  if start ~= p.a then return end
  redis.call('SET', key, struct.pack('>c1I6I5', 'F', start, math.max(0, used - p.b)), 'PX', stays(key, p.ends))
end

function add.R(key, p)
  local log = load_log(redis.call('GET', key))
  local at = #log + 1
  while at > 1 and log[at - 1][1] > p.a do at = at - 1 end
  table.insert(log, at, {p.a, p.b})
  redis.call('SET', key, pack_log(log), 'PX', stays(key, p.ends))
end

function take.R(key, p)
  local log = load_log(redis.call('GET', key))
  for at, one in ipairs(log) do
    if one[1] == p.a and one[2] == p.b then
      table.remove(log, at)
      redis.call('SET', key, pack_log(log), 'PX', stays(key, p.ends))
      return
    end
  end
end

-- The bucket has counted it already.
function add.G() end

function take.G(key, p)
  local whole = load_bucket(redis.call('GET', key))
  local rest = bucket_rest(p.a, p.b, now_us)
  if whole > 0 and rest > 0 then save_bucket(key, math.max(0, whole - rest), now) end
end

function add.U(key, p)
  if p.recipient == NOBODY then return end
  p.b = tonumber(redis.call('ZSCORE', key, p.recipient) or 0)
  if p.b == p.a then p.a = p.a + 1 end
  local ttl = stays(key, p.ends)
  redis.call('ZADD', key, 'GT', int(p.a), p.recipient)
  redis.call('PEXPIRE', key, ttl)
end

function take.U(key, p)
  if p.recipient == NOBODY or tonumber(redis.call('ZSCORE', key, p.recipient) or 0) ~= p.a then return end
  if p.b > 0 then
    redis.call('ZADD', key, int(p.b), p.recipient)
  else
    redis.call('ZREM', key, p.recipient)
  end
end

for k, p in ipairs(s.parts) do
  local counter, reserved = KEYS[2 * k], KEYS[2 * k + 1]
  local held = s.state == 'R'
  if confirm and p.ends > now then
    add[p.algorithm](counter, p)
  elseif not confirm and (not held or p.algorithm == 'G') then
    take[p.algorithm](counter, p)
  end
  if held then
    local rest = {}
    for _, r in ipairs(reservations(redis.call('GET', reserved))) do
      if r.send ~= ARGV[3] then rest[#rest + 1] = r end
    end
    if #rest == 0 then
      redis.call('DEL', reserved)
    else
      redis.call('SET', reserved, pack_reservations(rest), 'KEEPTTL')
    end
  end
end
-- The last of each kind is kept.
for n = #s.marks, 1, -1 do
  if string.sub(s.marks[n], 8) == ARGV[2] then table.remove(s.marks, n) end
end
table.insert(s.marks, 1, ARGV[1] .. ARGV[2])
if confirm then
  s.state, s.till = 'C', now + s.keep
  save_send(KEYS[1], s, s.keep + COLLECT)
  return {'CONFIRMED'}
end
s.state, s.till, s.parts = 'F', now + tonumber(ARGV[4]), {}
save_send(KEYS[1], s, tonumber(ARGV[4]) + COLLECT)
return {'REFUNDED'}
