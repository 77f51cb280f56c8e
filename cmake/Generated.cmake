# What is made at build time: the protobuf messages, and a header of statements for each .sql file.
set(QUERN_GENERATED_DIR ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${QUERN_GENERATED_DIR}/message ${QUERN_GENERATED_DIR}/broker/sqlite)

add_custom_command(
    OUTPUT ${QUERN_GENERATED_DIR}/message/asynq.pb-c.c ${QUERN_GENERATED_DIR}/message/asynq.pb-c.h
    COMMAND ${PROTOC_C} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}/src/message
        --c_out=${QUERN_GENERATED_DIR}/message asynq.proto
    DEPENDS src/message/asynq.proto VERBATIM)
set(QUERN_GENERATED_SOURCES ${QUERN_GENERATED_DIR}/message/asynq.pb-c.c)
set(QUERN_GENERATED_HEADERS ${QUERN_GENERATED_DIR}/message/asynq.pb-c.h)
# Its style is the generator's business.
set_source_files_properties(${QUERN_GENERATED_SOURCES} PROPERTIES COMPILE_OPTIONS "-w")

file(GLOB QUERN_SQL CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/src
    src/broker/sqlite/*.sql)
foreach(sql ${QUERN_SQL})
    string(REGEX REPLACE "\\.sql$" "_sql.h" header ${sql})
    add_custom_command(
        OUTPUT ${QUERN_GENERATED_DIR}/${header}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/scripts/embed_sql
            ${CMAKE_CURRENT_SOURCE_DIR}/src/${sql} ${QUERN_GENERATED_DIR}/${header}
        DEPENDS src/${sql} scripts/embed_sql VERBATIM)
    list(APPEND QUERN_GENERATED_HEADERS ${QUERN_GENERATED_DIR}/${header})
endforeach()
# clang-tidy wants at least one check; this one finds nothing there.
file(WRITE ${QUERN_GENERATED_DIR}/.clang-tidy "Checks: '-*,misc-misplaced-const'\n")
