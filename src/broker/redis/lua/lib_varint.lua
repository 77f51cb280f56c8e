-- lib_varint.lua - a number as protobuf writes it.
local function varint(number)
    local out = ''
    while number >= 128 do
        out = out .. string.char(number % 128 + 128)
        number = math.floor(number / 128)
    end
    return out .. string.char(number)
end
