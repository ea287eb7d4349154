-- When what has failed is tried again.
-- The wait before the attempt that follows `n` failed ones; `chance` in [0, 1).
local function backoff(j, n, chance)
  local base = j.base > 0 and j.base or tonumber(head[8] or 60000)
  local jitter = (j.jitter < 255 and j.jitter or tonumber(head[9] or 0)) / 100
  local wait = math.min(DAY, base * 2 ^ math.min(n - 1, 40))
  return math.floor(wait * (1 - jitter * chance))
end
