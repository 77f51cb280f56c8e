# Warnings for our own code; -Werror comes from the presets only.
set(QUERN_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wformat=2 -Wswitch-enum -Wimplicit-fallthrough -Wundef
    -Wpointer-arith -Wwrite-strings -Wcast-qual -Wno-missing-field-initializers)
