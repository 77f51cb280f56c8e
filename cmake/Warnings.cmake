# Warnings for our own code; they become errors in the presets only.
set(QUERN_CXX_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wformat=2
    -Wswitch-enum -Wimplicit-fallthrough -Wundef -Wpointer-arith -Wwrite-strings -Wcast-qual
    -Wno-missing-field-initializers)
set(QUERN_WARNINGS ${QUERN_CXX_WARNINGS} -Wstrict-prototypes -Wmissing-prototypes)
# Clang counts QN_ASSERT(!"reason") among the conversions.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    list(APPEND QUERN_WARNINGS -Wno-string-conversion)
endif()
