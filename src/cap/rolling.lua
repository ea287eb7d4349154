-- ROLLING: the policy has a log of its sends.
function judge.R(p, n)
  p.log, p.used, p.frees = {}, 0, {}
  for _, one in ipairs(load_log(p.raw)) do
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
  return first + turns * p.window - now, 0
end
