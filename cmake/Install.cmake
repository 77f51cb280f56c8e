# The installed files: headers, both libraries, the program with its completions, all pages, and how
# others find them (pkg-config and CMake). tests/package builds a program against the result in each
# way.
include(CMakePackageConfigHelpers)
set(QUERN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/quern)

install(TARGETS quern EXPORT quernTargets)
install(TARGETS quern_static EXPORT quernStaticTargets)
if(TARGET quern_cli)
    install(TARGETS quern_cli)
endif()
if(TARGET quern_completion)
    install(FILES ${QUERN_GENERATED_DIR}/quern.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME quern)
    install(FILES ${QUERN_GENERATED_DIR}/quern.zsh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _quern)
    install(FILES ${QUERN_GENERATED_DIR}/quern.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(GLOB QUERN_MAN_PAGES CONFIGURE_DEPENDS man/*.1)
install(FILES ${QUERN_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# The units, with the place of the program in them.
if(TARGET quern_cli)
    install(CODE "
        file(GLOB units \"${CMAKE_CURRENT_SOURCE_DIR}/contrib/systemd/*.service\")
        foreach(unit IN LISTS units)
            get_filename_component(name \"\${unit}\" NAME)
            file(READ \"\${unit}\" text)
            string(REPLACE /usr/bin/quern \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/quern\"
                text \"\${text}\")
            file(WRITE \"${CMAKE_CURRENT_BINARY_DIR}/units/\${name}\" \"\${text}\")
            file(INSTALL \"${CMAKE_CURRENT_BINARY_DIR}/units/\${name}\"
                DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\")
        endforeach()")
endif()
# Every page that README leads to, and the examples as sources.
file(GLOB QUERN_PAGES CONFIGURE_DEPENDS *.md)
install(FILES ${QUERN_PAGES} LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs contrib DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.c"
    PATTERN "*.cpp" PATTERN "*.py" PATTERN "expected" EXCLUDE)

# pkg-config --static names the libraries that libquern.a needs, the shared library has its own. Not
# by Requires.private, which would also hand their compiler flags to everyone.
set(private -pthread)
foreach(library SQLITE SSL CRYPTO PROTOBUFC HIREDIS INIH)
    list(APPEND private ${${library}_STATIC_LDFLAGS})
endforeach()
list(REMOVE_DUPLICATES private)
list(FILTER private EXCLUDE REGEX "^-L/usr/lib")
list(JOIN private " " QUERN_PC_PRIVATE)
# The folders are relative to the file, so the prefix may be moved; under /usr they are absolute, as
# pkg-config then omits the standard search paths.
file(RELATIVE_PATH QUERN_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(QUERN_PC_PREFIX "\${pcfiledir}/${QUERN_PC_UP}")
configure_file(cmake/quern.pc.in quern.pc @ONLY)
set(QUERN_PC_PREFIX /usr)
configure_file(cmake/quern.pc.in usr/quern.pc @ONLY)
install(CODE "
    set(folder \"${CMAKE_CURRENT_BINARY_DIR}\")
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
        string(APPEND folder /usr)
    endif()
    file(INSTALL \"\${folder}/quern.pc\"
        DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")")

# find_package(quern) gives quern::quern; with COMPONENTS static also quern::static.
set_target_properties(quern_static PROPERTIES EXPORT_NAME static)
foreach(export quernTargets quernStaticTargets)
    install(EXPORT ${export} NAMESPACE quern:: DESTINATION ${QUERN_CMAKE_DIR})
endforeach()
configure_package_config_file(cmake/quernConfig.cmake.in quernConfig.cmake
    INSTALL_DESTINATION ${QUERN_CMAKE_DIR})
write_basic_package_version_file(quernConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quernConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/quernConfigVersion.cmake DESTINATION ${QUERN_CMAKE_DIR})
