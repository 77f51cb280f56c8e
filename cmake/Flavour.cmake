# How everything is compiled: the standard, the kind of build, sanitizers, hardening.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

get_property(several_kinds GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT several_kinds AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "the kind of build" FORCE)
endif()

include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(QUERN_SANITIZE "" CACHE STRING "what to pass to -fsanitize=")
if(QUERN_SANITIZE)
    add_compile_options(-O1 -g -fno-omit-frame-pointer -fsanitize=${QUERN_SANITIZE}
        -fno-sanitize-recover=all)
    string(REPLACE ",fuzzer-no-link" "" link_sanitizers "${QUERN_SANITIZE}")
    add_link_options(-fsanitize=${link_sanitizers})
else()
    # Numbers of others are clamped where they enter; should one be forgotten, it wraps and does
    # nothing worse. Not under sanitizers, which shall find it.
    add_compile_options(-fno-strict-overflow)
endif()

# Each flag is asked for, since not every one exists on every processor.
option(QUERN_HARDENING "make holes harder to use" OFF)
if(QUERN_HARDENING)
    foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
            -mbranch-protection=standard -ftrivial-auto-var-init=zero)
        string(MAKE_C_IDENTIFIER "HAVE${flag}" known)
        check_c_compiler_flag(${flag} ${known})
        if(${known})
            add_compile_options(${flag})
        endif()
    endforeach()
    # Glibc's checks of buffer sizes; what the compiler defines by itself gives way.
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# With LTO the objects carry machine code too, so that libquern.a links for everyone.
if(CMAKE_INTERPROCEDURAL_OPTIMIZATION AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(TRANSFORM CMAKE_C_COMPILE_OPTIONS_IPO REPLACE "^-fno-fat" "-ffat")
endif()

# Other checks of clang-tidy: every file is looked at again, as its command line changes with them.
if(CMAKE_C_CLANG_TIDY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS .clang-tidy)
    file(SHA256 .clang-tidy checks)
    add_compile_definitions(QUERN_LINT_${checks})
endif()
