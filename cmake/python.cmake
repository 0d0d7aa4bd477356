# SPDX-License-Identifier: Apache-2.0
#
# The Python module: python/ckpt/, with the extension over the static library. The build tree gets
# a copy of the package that PYTHONPATH=build/python imports. The extension keeps to the limited API
# of 3.11: one file for that Python and all later ones.

find_package(Python3 3.11 QUIET COMPONENTS Interpreter Development.Module)
option(CKPT_PYTHON "build the Python module" ${Python3_Development.Module_FOUND})
set(python_bundle OFF)
if(BUILD_TESTING AND EXISTS /etc/debian_version) # what the archives of others are good for is not known
	set(python_bundle ON)
endif()
option(CKPT_PYTHON_BUNDLE "for tests: also in build/python-bundle, for Pythons of other systems that lack its libraries"
	${python_bundle})
if(NOT CKPT_PYTHON)
	return()
endif()
if(NOT Python3_Development.Module_FOUND)
	message(FATAL_ERROR "CKPT_PYTHON needs the development files of Python 3.11 or later")
endif()

file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/ckpt/*.c)
add_library(ckpt_python_objects OBJECT ${python_sources})
target_include_directories(ckpt_python_objects PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_include_directories(ckpt_python_objects SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_definitions(ckpt_python_objects PRIVATE Py_LIMITED_API=0x030b0000)
target_link_libraries(ckpt_python_objects PRIVATE ckpt_flags)
file(GLOB_RECURSE python_modules CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/ckpt
	${CMAKE_SOURCE_DIR}/python/ckpt/*.py ${CMAKE_SOURCE_DIR}/python/ckpt/*.pyi ${CMAKE_SOURCE_DIR}/python/ckpt/py.typed)

# python_package(TARGET TREE LIBRARY...): the package in folder TREE, linked with these
function(python_package target tree)
	add_library(${target} MODULE $<TARGET_OBJECTS:ckpt_python_objects>)
	# the archive alone: who links with the target ckpt_static gets the shared libraries that it names
	target_link_libraries(${target} PRIVATE ckpt_flags $<TARGET_FILE:ckpt_static> ${ARGN}
		Threads::Threads ${CMAKE_DL_LIBS} m)
	add_dependencies(${target} ckpt_static)
	# Other modules of the process may have another copy of the same libraries: none of ours is shown.
	target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed)
	set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME _ckpt SUFFIX .abi3.so LINKER_LANGUAGE C
		LINK_DEPENDS $<TARGET_FILE:ckpt_static> LIBRARY_OUTPUT_DIRECTORY ${tree}/ckpt)
	set(copies)
	foreach(name ${python_modules})
		add_custom_command(OUTPUT ${tree}/ckpt/${name}
			COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/python/ckpt/${name} ${tree}/ckpt/${name}
			DEPENDS ${CMAKE_SOURCE_DIR}/python/ckpt/${name} VERBATIM)
		list(APPEND copies ${tree}/ckpt/${name})
	endforeach()
	add_custom_target(${target}_files ALL DEPENDS ${copies})
endfunction()

python_package(ckpt_python ${CMAKE_BINARY_DIR}/python ${shared_needs})

# With the static form of the libraries that have one for shared objects. Debian's libzip has none, and
# that of jansson is for programs alone: copies of the shared ones lie beside the extension. What libzip
# needs (libz, libbz2, libcrypto) is the other system's own: a second copy of these in one process would
# be taken for the first.
if(CKPT_PYTHON_BUNDLE)
	include(cmake/portable.cmake)
	set(bundle_copied PkgConfig::LIBZIP PkgConfig::JANSSON)
	set(bundle_needs ${shared_needs})
	list(REMOVE_ITEM bundle_needs ${bundle_copied})
	prefer_static(bundle_needs)
	set(bundle ${CMAKE_BINARY_DIR}/python-bundle)
	python_package(ckpt_python_bundle ${bundle} ${bundle_needs} ${bundle_copied})
	set_target_properties(ckpt_python_bundle PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
	foreach(target ${bundle_copied})
		get_target_property(library ${target} INTERFACE_LINK_LIBRARIES)
		list(GET library 0 library)
		add_custom_command(TARGET ckpt_python_bundle POST_BUILD VERBATIM COMMAND ${CMAKE_COMMAND}
			-DLIBRARY=${library} -DTO=${bundle}/ckpt -P ${CMAKE_SOURCE_DIR}/cmake/copy_library.cmake)
	endforeach()
endif()

# For 'pip install': pyproject.toml says the rest.
if(SKBUILD)
	install(TARGETS ckpt_python LIBRARY DESTINATION ckpt COMPONENT python)
	install(TARGETS ckpt RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()
