-- GCRA: the policy has the instant at which its burst is whole again.
function judge.G(p, n)
  local burst = p.limit * p.window
  p.whole, p.lapsing = load_bucket(p.raw), {}
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
  return math.max(0, math.ceil((ready - now_us) / 1000)), 0
end
