-- Shared by what remembers requests. A mark: 7 bytes of a request id's HMAC · 1 what it did. The newest comes first.
local MARKS = 4

-- So many of them, and where they end.
local function marks_in(raw, at, count)
  local marks = {}
  for n = 1, count do
    marks[n], at = string.sub(raw, at, at + 7), at + 8
  end
  return marks, at
end

-- What a request did before, or nil.
local function found(marks, request)
  for _, mark in ipairs(marks or {}) do
    if string.sub(mark, 1, 7) == request then return string.sub(mark, 8) end
  end
  return nil
end

-- The last few stay. What is done again and again (`often`) leaves only its last mark.
local function remember(marks, request, what, often)
  if what == often and marks[1] and string.sub(marks[1], 8) == often then table.remove(marks, 1) end
  table.insert(marks, 1, request .. what)
  marks[MARKS + 1] = nil
end
