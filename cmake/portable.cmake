# SPDX-License-Identifier: Apache-2.0
#
# For CKPT_PORTABLE: an archive for machines that have none of the libraries. The command is linked
# with the static form of a library where there is one; what is left comes along in lib/ckpt/, and
# is found there by a run path that LD_LIBRARY_PATH does not override.

# prefer_static(LIST): in LIST, names of pkg-config targets, puts the archive for each that has one.
function(prefer_static list)
	set(result)
	foreach(target ${${list}})
		get_target_property(libs ${target} INTERFACE_LINK_LIBRARIES)
		list(GET libs 0 shared)
		string(REGEX REPLACE "\\.so$" ".a" archive "${shared}")
		# libzip's archive would want libraries of its own, which differ from system to system.
		if(archive MATCHES "/libzip\\.a$" OR NOT archive MATCHES "\\.a$" OR NOT EXISTS ${archive})
			list(APPEND result ${target})
		else()
			list(APPEND result ${archive})
			set_property(GLOBAL APPEND PROPERTY CKPT_LINKED_IN ${archive})
		endif()
	endforeach()
	set(${list} ${result} PARENT_SCOPE)
endfunction()

# bring_libraries(): makes 'install' copy the shared libraries that ckpt and libckpt.so need.
function(bring_libraries)
	set(private ${CMAKE_INSTALL_LIBDIR}/ckpt)
	file(RELATIVE_PATH from_bin /${CMAKE_INSTALL_BINDIR} /${private})
	set_target_properties(ckpt ckpt_shared PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
	set_target_properties(ckpt PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin}")
	set_target_properties(ckpt_shared PROPERTIES INSTALL_RPATH "$ORIGIN/ckpt")
	# The old kind of run path also counts for the libraries' own libraries.
	target_link_options(ckpt PRIVATE LINKER:--disable-new-dtags LINKER:--as-needed)
	target_link_options(ckpt_shared PRIVATE LINKER:--disable-new-dtags)
	get_property(linked_in GLOBAL PROPERTY CKPT_LINKED_IN)
	install(CODE "
		set(CKPT_BINARIES \"$<TARGET_FILE:ckpt>\" \"$<TARGET_FILE:ckpt_shared>\")
		set(CKPT_LINKED_IN \"${linked_in}\")
		set(CKPT_TO \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private}\")
		set(CKPT_DOC \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
		include(\"${CMAKE_SOURCE_DIR}/cmake/bundle.cmake\")")
endfunction()
