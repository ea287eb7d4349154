-- UNIQUE: the policy has a sorted set of recipients.
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
  if p.flags % 4 >= 2 then return 0, 0 end
  local at, turns = (k - 1) % p.limit + 1, math.floor((k - 1) / p.limit)
  local behind, first = at - math.max(0, p.limit - p.used), now
  if behind > 0 then first = left(p, behind + math.max(0, p.used - p.limit)) or now + p.window end
  return first + turns * p.window - now, 0
end
