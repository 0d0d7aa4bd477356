# SPDX-License-Identifier: Apache-2.0
#
# What 'cmake --install' and 'cpack' put where: the command with its man pages and completions, both
# libraries with headers, pkg-config file and CMake package, documents.

include(CMakePackageConfigHelpers)

file(STRINGS include/ckpt/version.h header_version REGEX "define CKPT_VERSION ")
if(NOT header_version MATCHES "\"${PROJECT_VERSION}\"")
	message(FATAL_ERROR "project() says ${PROJECT_VERSION}, include/ckpt/version.h: ${header_version}")
endif()

set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ckpt)
install(TARGETS ckpt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(kind static shared)
	install(TARGETS ckpt_${kind} EXPORT ckpt-${kind}-targets
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
	install(EXPORT ckpt-${kind}-targets NAMESPACE ckpt:: DESTINATION ${cmake_dir})
endforeach()
install(DIRECTORY include/ckpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES bench/README.md bench/RESULTS.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md
	PATTERN *.c PATTERN broadcast-*)

# ---- for those who build with the library ----

configure_package_config_file(cmake/ckpt-config.cmake.in ckpt-config.cmake
	INSTALL_DESTINATION ${cmake_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(ckpt-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ckpt-config.cmake
	${CMAKE_CURRENT_BINARY_DIR}/ckpt-config-version.cmake DESTINATION ${cmake_dir})

# The .pc file finds its prefix from where it lies, so that the tree can be moved.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} OR IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
	set(pc_prefix ${CMAKE_INSTALL_PREFIX})
	set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
	set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
	file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
	string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${up}")
	set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
	set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(pc_requires "libdeflate zlib libzstd libpcre2-8 jansson nettle")
set(pc_libs "-lpthread -ldl -lm")
find_library(LIBZIP_ARCHIVE libzip.a HINTS ${LIBZIP_LIBDIR})
mark_as_advanced(LIBZIP_ARCHIVE)
if(CKPT_PORTABLE)
	# The archive must be of use where no other library has a .pc file.
	set(pc_requires)
	set(pc_libs "-lzip -ldeflate -lz -lzstd -lpcre2-8 -ljansson -lnettle ${pc_libs}")
elseif(LIBZIP_ARCHIVE)
	set(pc_requires "libzip ${pc_requires}")
else()
	# Debian's libzip is shared only, and its .pc file names libraries that only an archive needs.
	list(JOIN LIBZIP_LDFLAGS " " libzip)
	set(pc_libs "${libzip} ${pc_libs}")
endif()
configure_file(cmake/ckpt.pc.in ckpt.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ckpt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# ---- man pages and completions: printed by the command, so it has to run here ----

if(NOT CMAKE_CROSSCOMPILING)
	set(pages ${CMAKE_CURRENT_BINARY_DIR}/pages)
	add_custom_command(OUTPUT ${pages}/man1/ckpt.1
		COMMAND ${CMAKE_COMMAND} -D CKPT=$<TARGET_FILE:ckpt> -D TO=${pages}
			-P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/pages.cmake
		DEPENDS ckpt cmake/pages.cmake cmake/ckpt.1.in
		COMMENT "Printing man pages and completions" VERBATIM)
	add_custom_target(ckpt_pages ALL DEPENDS ${pages}/man1/ckpt.1)
	install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
	install(FILES ${pages}/ckpt.bash RENAME ckpt
		DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
	install(FILES ${pages}/_ckpt DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
	install(FILES ${pages}/ckpt.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# ---- cpack ----

# Without CKPT_PORTABLE there is no cpack: an archive that runs only here is of no use elsewhere.
if(CKPT_PORTABLE)
	bring_libraries()
	string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
	set(CPACK_GENERATOR TGZ)
	set(CPACK_PACKAGE_FILE_NAME ckpt-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
	set(CPACK_PACKAGE_CHECKSUM SHA256)
	set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
	set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
	set(CPACK_STRIP_FILES ON)
	include(CPack)
endif()
