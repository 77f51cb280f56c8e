# Files made at build time: the protobuf messages, and a header for each .sql
# file (its statements) and each .lua file (the script).
set(QUERN_GENERATED_DIR ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${QUERN_GENERATED_DIR}/message/asynq)

add_custom_command(
    OUTPUT ${QUERN_GENERATED_DIR}/message/asynq/asynq.pb-c.c
        ${QUERN_GENERATED_DIR}/message/asynq/asynq.pb-c.h
    COMMAND ${PROTOC_C} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}/src/message/asynq
        --c_out=${QUERN_GENERATED_DIR}/message/asynq asynq.proto
    DEPENDS src/message/asynq/asynq.proto VERBATIM)
set(QUERN_GENERATED_SOURCES ${QUERN_GENERATED_DIR}/message/asynq/asynq.pb-c.c)
set(QUERN_GENERATED_HEADERS ${QUERN_GENERATED_DIR}/message/asynq/asynq.pb-c.h)
# Its style is the generator's business.
set_source_files_properties(${QUERN_GENERATED_SOURCES} PROPERTIES COMPILE_OPTIONS "-w")

file(GLOB_RECURSE QUERN_SQL CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/src
    src/broker/sqlite/*.sql)
foreach(sql ${QUERN_SQL})
    string(REGEX REPLACE "\\.sql$" "_sql.h" header ${sql})
    cmake_path(GET header PARENT_PATH room)
    file(MAKE_DIRECTORY ${QUERN_GENERATED_DIR}/${room})
    add_custom_command(
        OUTPUT ${QUERN_GENERATED_DIR}/${header}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/embed_sql
            ${CMAKE_CURRENT_SOURCE_DIR}/src/${sql} ${QUERN_GENERATED_DIR}/${header}
        DEPENDS src/${sql} scripts/embed_sql VERBATIM)
    list(APPEND QUERN_GENERATED_HEADERS ${QUERN_GENERATED_DIR}/${header})
endforeach()
# The files in lua/ are included by others; all are rebuilt when one of them changes.
file(GLOB_RECURSE QUERN_LUA CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/src
    src/broker/redis/*.lua)
set(QUERN_LUA_PARTS ${QUERN_LUA})
list(FILTER QUERN_LUA_PARTS INCLUDE REGEX "/lua/")
list(FILTER QUERN_LUA EXCLUDE REGEX "/lua/")
list(TRANSFORM QUERN_LUA_PARTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/src/)
# The planted faults that are lines of scripts; see scripts/embed_lua.
set(QUERN_LUA_BUGS "")
if(QUERN_SEEDED_BUGS)
    set(QUERN_LUA_BUGS ${CMAKE_CURRENT_SOURCE_DIR}/src/base/bug.h)
endif()
# The constants that scripts name: numbers of these headers.
list(TRANSFORM QUERN_LUA PREPEND src/ OUTPUT_VARIABLE QUERN_LUA_FILES)
add_custom_command(
    OUTPUT ${QUERN_GENERATED_DIR}/lua_constants ${QUERN_GENERATED_DIR}/lua_constants.h
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/lua_constants
        ${QUERN_GENERATED_DIR}/lua_constants ${CMAKE_C_COMPILER}
    DEPENDS ${QUERN_LUA_FILES} ${QUERN_LUA_PARTS} src/message/asynq/asynq.h include/quern/task.h
        src/task/limits.h scripts/lua_constants VERBATIM)
foreach(lua ${QUERN_LUA})
    string(REGEX REPLACE "\\.lua$" "_lua.h" header ${lua})
    cmake_path(GET header PARENT_PATH room)
    file(MAKE_DIRECTORY ${QUERN_GENERATED_DIR}/${room})
    add_custom_command(
        OUTPUT ${QUERN_GENERATED_DIR}/${header}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/embed_lua
            ${CMAKE_CURRENT_SOURCE_DIR}/src/${lua} ${QUERN_GENERATED_DIR}/${header}
            ${QUERN_GENERATED_DIR}/lua_constants ${QUERN_LUA_BUGS}
        DEPENDS src/${lua} ${QUERN_LUA_PARTS} ${QUERN_LUA_BUGS}
            ${QUERN_GENERATED_DIR}/lua_constants scripts/embed_lua VERBATIM)
    list(APPEND QUERN_GENERATED_HEADERS ${QUERN_GENERATED_DIR}/${header})
endforeach()
# clang-tidy wants at least one check; this one finds nothing there.
file(WRITE ${QUERN_GENERATED_DIR}/.clang-tidy "Checks: '-*,misc-misplaced-const'\n")
