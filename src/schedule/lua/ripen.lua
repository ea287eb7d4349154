-- Before jobs are leased those that are due are made ready. Also before others are settled in the same call: what a settle takes from a
-- group is not put there again.
if not head[1] then return {'NONE'} end
promote(head[11] and 200 or 300)
