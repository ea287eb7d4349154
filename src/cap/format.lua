-- Shared by the cap scripts. All cap keys of a namespace are in one slot; numbers are in clear, names are HMACs.
--   policies   hash: 8 bytes of the name's HMAC → c1 algorithm (F R G U) · B flags (1 fail open, 2 unlimited, 4 civil days, 8 from
--              the configuration) · I8 revision · I8 definition (the revision since which counters are the same) · I8 limit
--              (G: burst) · I8 window (ms; G: period, µs) · I6 updated (ms) · c8 fingerprint of the definition · B marks · marks · sealed
--   counter    F: c1 · I6 window's start · I5 used       R: c1 · (I6 time · B n) each, oldest first
--              G: c1 · I7 the instant (µs) at which the burst is whole again
--              U: a sorted set, recipient → the last send that a business began (ms)
--   reserved   entries of 8 send · I6 lapses · I7 a · I6 b · c8 recipient, as in a send. What F, R and U have reserved is only here
--              until it is confirmed; G counts it at once, and gives it back when it has lapsed.
--   send       c1 state: R reserved, C committed, F refunded · I6 till (R lapses, C and F are forgotten) · I5 how long it is
--              remembered · c8 fingerprint · B marks · marks · for each policy: c1 algorithm · c16 counter · I7 a · I6 b · I6 ends ·
--              c8 recipient (U only) · I5 limit · I5 used · I6 reset (ms, 0 = none)
--              What a send took: F a = window's start, b = n; R a = time, b = n; G a = from which instant (µs), b = how long (µs);
--              U a = time, b = the send before it (0 = none). From `ends` on nothing of it counts.
--   inbound    I6 until when the service window is open · marks
-- A mark: 7 bytes of a request id's HMAC · 1 what it did. Logical instants decide; a key's TTL only collects what is past them.
local COLLECT, NOBODY = 60000, string.rep('\0', 8)
local POLICY, SEND, RESERVED = '>c1BI8I8I8I8I6c8B', '>c1I6I5c8B', '>c8I6I7I6c8'
local PART, PART_UNIQUE = '>c1c16I7I6I6I5I5I6', '>c1c16I7I6I6c8I5I5I6'
local RESERVED_SIZE, RESERVED_MAX = 35, 256
-- A send under one policy, in one piece.
local ONE = '>c1I6I5c8Bc1c16I7I6I6I5I5I6'
-- How long a send is remembered (ms).
local KEEP_LEAST, KEEP_MOST = 48 * 3600 * 1000, 8 * 24 * 3600 * 1000
