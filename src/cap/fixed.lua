-- FIXED: the policy has one counter a window.
function judge.F(p, n)
  if p.since ~= p.start then p.counted = 0 end
  p.used = p.counted
  if #p.reserved > 0 then p.frees = {} end
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
  if left <= 0 then return 0, 0 end
  local lapsing = 0
  for _, free in ipairs(p.frees) do lapsing = lapsing + (free[1] < p.ends and free[2] or 0) end
  if left <= lapsing then return freed(p.frees, left) - now, 0 end
  return 0, math.ceil((left - lapsing) / p.limit)
end
