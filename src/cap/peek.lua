-- What consume would find.
-- KEYS: policies, (any of the slot), inbound, then for each policy: counter, reserved
-- ARGV: packed: n, unit (0 = not asked), recipient (8 bytes); then for each policy packed: name (8 bytes), revision, window's start and end
-- Reply: OK now, open until (0 = closed), then for each policy: limit, used, reset, never, wait, wait for the unit (ms), windows until
--        the unit | NO_POLICY k | STALE_POLICY k packed | STALE_WINDOW now
local n, asked, recipient = struct.unpack('>I7I7c8', ARGV[1])
local list, refusal = policies(recipient, n)
if not list then return refusal end
local reply, k = {'OK', now, open_until()}, asked
for _, p in ipairs(list) do
  told(reply, (p.algorithm == 'U' and p.flags % 4 >= 2) and 0 or p.limit, p.used, p.reset)
  reply[#reply + 1], reply[#reply + 2] = p.never and 1 or 0, p.wait
  local wait, windows = 0, 0
  if k > 0 then wait, windows = unit[p.algorithm](p, k) end
  reply[#reply + 1], reply[#reply + 2] = wait, windows
end
return reply
