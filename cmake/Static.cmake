# libquern.a: all objects as one, in which only the names of the public headers are left, so that a
# program that is linked with it may have functions named like ours inside.
#
# With LTO the machine code is made now, for the library as a whole: a program links it with any
# compiler. Clang's LTO cannot do that; there, and without objcopy, the archive holds the plain
# objects.
set(localised ${CMAKE_CURRENT_BINARY_DIR}/libquern.o)
set(merge -r -nostdlib)
set(can_localise ON)
if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    string(TOUPPER "${CMAKE_BUILD_TYPE}" kind)
    separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${kind}}")
    list(APPEND merge ${flags} ${QUERN_HARDENING_FLAGS} -fPIC -flto=auto -flinker-output=nolto-rel)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
        set(can_localise OFF)
    endif()
endif()

if(can_localise AND CMAKE_OBJCOPY)
    add_custom_command(OUTPUT ${localised}
        COMMAND ${CMAKE_C_COMPILER} ${merge} -o ${localised} $<TARGET_OBJECTS:quern_objects>
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${localised}
        DEPENDS quern_objects $<TARGET_OBJECTS:quern_objects>
        COMMENT "Leaving only quern_* in libquern.a" COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties(${localised} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    add_library(quern_static STATIC ${localised})
else()
    message(STATUS "libquern.a keeps its inner names: this compiler cannot take them out")
    add_library(quern_static STATIC $<TARGET_OBJECTS:quern_objects>)
endif()
target_link_libraries(quern_static PRIVATE ${QUERN_LIBRARIES})
set_target_properties(quern_static PROPERTIES OUTPUT_NAME quern LINKER_LANGUAGE C)
