# What is installed: headers, both libraries, the program with its completion, man pages, and how
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
endif()
install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(GLOB QUERN_MAN_PAGES CONFIGURE_DEPENDS man/*.1)
install(FILES ${QUERN_MAN_PAGES} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# pkg-config --static names the libraries that libquern.a needs, the shared library has its own.
# The folders are relative to the file, so the prefix may be moved.
file(RELATIVE_PATH QUERN_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/quern.pc.in quern.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/quern.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

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
