-- Milliseconds by the server.
local function server_ms()
  return math.floor(server_us() / 1000)
end

-- A number as Valkey takes it: whole, and not in powers of ten.
local function int(n)
  return string.format('%.0f', n)
end
