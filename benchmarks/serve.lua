-- wrk: good rows, and one body in three malformed in one of many ways. Argument: a row's file.

local bad = {
  "", "{", "[]", "null", "true", '"text"', '{"Mt": NaN}', '{"Mt": 1e999}', '{"Mt": "x"}',
  '{"Mt": null}', '{"Mt": 1, "Mt": 2}', '[{"Mt": 1}, 2]', '{"\\ud800": 1}', "\255\254\0",
  string.rep("[", 5000), string.rep("9", 50000), string.rep(" ", 1100000),
}
local row
local turn = 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  row = file:read("*a")
  file:close()
  math.randomseed(1)
end

function request()
  turn = turn + 1
  local kind = "application/json"
  local body = row
  if turn % 3 == 0 then
    body = bad[math.random(#bad)]
  elseif turn % 50 == 0 then
    kind = "text/plain"
  elseif turn % 70 == 0 then
    return wrk.format("PUT", "/predict", {}, row)
  end
  return wrk.format("POST", "/predict", { ["Content-Type"] = kind }, body)
end
