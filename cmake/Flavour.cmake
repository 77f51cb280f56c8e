# How everything is compiled: the standard, the kind of build, sanitizers, hardening.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

get_property(several_kinds GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT several_kinds AND NOT CMAKE_BUILD_TYPE)
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

# Builds for use are hardened, and contain no build paths: everything but debug builds and those
# with a sanitizer. Each flag is tested, since not every one exists on every processor.
set(hardening_wanted ON)
if(QUERN_SANITIZE OR (NOT several_kinds AND CMAKE_BUILD_TYPE STREQUAL "Debug"))
    set(hardening_wanted OFF)
endif()
option(QUERN_HARDENING "make holes harder to use, name no folders" ${hardening_wanted})
set(QUERN_HARDENING_FLAGS "")
if(QUERN_HARDENING)
    foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
            -mbranch-protection=standard -ftrivial-auto-var-init=zero)
        string(MAKE_C_IDENTIFIER "HAVE${flag}" known)
        check_c_compiler_flag(${flag} ${known})
        if(${known})
            list(APPEND QUERN_HARDENING_FLAGS ${flag})
        endif()
    endforeach()
    # Glibc's checks of buffer sizes; they replace the compiler's own definition.
    list(APPEND QUERN_HARDENING_FLAGS -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    # The last one that fits counts. With LTO the linker names folders, too.
    set(folders -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.
        -ffile-prefix-map=${PROJECT_BINARY_DIR}=./build)
    list(APPEND QUERN_HARDENING_FLAGS ${folders})
    add_link_options(${folders})
    # In a build of several kinds the debug one goes without.
    add_compile_options("$<$<NOT:$<CONFIG:Debug>>:${QUERN_HARDENING_FLAGS}>")
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
