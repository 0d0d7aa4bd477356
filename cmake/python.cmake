# SPDX-License-Identifier: Apache-2.0
#
# The Python module: python/ckpt/, with the extension over the static library. The build tree gets
# a copy of the package that PYTHONPATH=build/python imports. The extension keeps to the limited API
# of 3.11: one file for that Python and all later ones.

find_package(Python3 3.11 QUIET COMPONENTS Interpreter Development.Module)
option(CKPT_PYTHON "build the Python module" ${Python3_Development.Module_FOUND})
option(CKPT_PYTHON_BUNDLE
	"the Python module brings along the libraries it needs, for machines that have none of them" OFF)
if(NOT CKPT_PYTHON)
	return()
endif()
if(NOT Python3_Development.Module_FOUND)
	message(FATAL_ERROR "CKPT_PYTHON needs the development files of Python 3.11 or later")
endif()

set(python_tree ${CMAKE_BINARY_DIR}/python/ckpt)
file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/ckpt/*.c)
add_library(ckpt_python MODULE ${python_sources})
target_include_directories(ckpt_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_definitions(ckpt_python PRIVATE Py_LIMITED_API=0x030b0000)
set(python_needs ${shared_needs})
if(CKPT_PYTHON_BUNDLE)
	include(cmake/portable.cmake)
	prefer_static(python_needs)
endif()
target_link_libraries(ckpt_python PRIVATE ckpt_flags)
target_include_directories(ckpt_python PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(ckpt_python PRIVATE ${CMAKE_BINARY_DIR}/${CMAKE_STATIC_LIBRARY_PREFIX}ckpt.a
	${python_needs} Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(ckpt_python ckpt_static)
# Other modules of the process may have another copy of the same libraries: none of ours is shown.
target_link_options(ckpt_python PRIVATE LINKER:--exclude-libs,ALL)
set_target_properties(ckpt_python PROPERTIES PREFIX "" OUTPUT_NAME _ckpt SUFFIX .abi3.so
	C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${python_tree})
if(CKPT_PYTHON_BUNDLE)
	# The old kind of run path also counts for the libraries' own libraries.
	target_link_options(ckpt_python PRIVATE LINKER:--disable-new-dtags LINKER:--as-needed)
	set_target_properties(ckpt_python PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
endif()

# the rest of the package, copied whenever it changes
file(GLOB_RECURSE python_modules CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/ckpt
	${CMAKE_SOURCE_DIR}/python/ckpt/*.py ${CMAKE_SOURCE_DIR}/python/ckpt/*.pyi
	${CMAKE_SOURCE_DIR}/python/ckpt/py.typed)
set(python_copies)
foreach(name ${python_modules})
	add_custom_command(OUTPUT ${python_tree}/${name}
		COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/python/ckpt/${name} ${python_tree}/${name}
		DEPENDS ${CMAKE_SOURCE_DIR}/python/ckpt/${name} VERBATIM)
	list(APPEND python_copies ${python_tree}/${name})
endforeach()
add_custom_target(ckpt_python_files ALL DEPENDS ${python_copies})
