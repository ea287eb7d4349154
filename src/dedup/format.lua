-- Shared by the claim scripts. A claim (KEYS[1], a string):
--   1 state: P in progress, D done, R released · 8 fence (µs of the claim, or more) · 6 until (ms): P when its time runs out, D when
--   it is free again, R when it is forgotten · 5 retention (ms) · 1 flags: 0..4 marks, +8 a fingerprint · 8 fingerprint, if there is
--   one · marks, the newest first · the sealed result, if there is one
-- A mark: 7 bytes of a request id's HMAC · 1 what it did: N new, n new and done, T taken over, t taken over and done, C completed,
--   E extended, R released.
-- Logical instants decide; the key's TTL only collects what is past them.
local HEAD, COLLECT = '>c1I8I6I5B', 60000
