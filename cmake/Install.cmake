install(TARGETS quern quern_static quern_cli)
install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
