-- Claims a key.
-- KEYS: claim
-- ARGV: request (7 bytes), fingerprint ('' = none), time for the work (ms), retention (ms), complete ('1')
-- Reply: NEW fence until replayed | TAKEOVER fence until replayed | IN_PROGRESS wait (ms) | DUPLICATE until result | MISMATCH
local request, fingerprint, complete = ARGV[1], ARGV[2], ARGV[5] == '1'
local c = load()
local us = clock(c)
local now = math.floor(us / 1000)
local what, word = 'N', 'NEW'

if not free(c, now) then
  local before = found(c and c.marks, request)
  if before == 'n' or before == 't' then
    return {before == 'n' and 'NEW' or 'TAKEOVER', c.fence, c.till, 1}
  end
  if c.state == 'P' and now < c.till and (before == 'N' or before == 'T') then
    -- Only the newest claim is still somebody's.
    for n = 1, #c.marks do
      local kind = string.sub(c.marks[n], 8)
      if kind == 'N' or kind == 'T' then
        if string.sub(c.marks[n], 1, 7) == request then
          return {before == 'N' and 'NEW' or 'TAKEOVER', c.fence, c.till, 1}
        end
        break
      end
    end
  end
  if fingerprint ~= '' and c.fingerprint ~= '' and fingerprint ~= c.fingerprint then return {'MISMATCH'} end
  if c.state == 'D' then return {'DUPLICATE', c.till, c.result} end
  if now < c.till then return {'IN_PROGRESS', c.till - now} end
  what, word = 'T', 'TAKEOVER'
  if fingerprint == '' then fingerprint = c.fingerprint end
end

local taken = {fence = us, marks = c and c.marks or {}, fingerprint = fingerprint, retention = tonumber(ARGV[4]), result = ''}
if c then taken.fence = math.max(c.fence + 1, us) end
if complete then
  taken.state, taken.till = 'D', now + taken.retention
else
  taken.state, taken.till = 'P', in_progress_till(us, ARGV[3])
end
remember(taken.marks, request, complete and string.lower(what) or what)
save(taken, now)
return {word, taken.fence, taken.till, 0}
