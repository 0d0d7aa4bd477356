# SPDX-License-Identifier: Apache-2.0
#
# Part of 'install' with CKPT_PORTABLE: copies the libraries that CKPT_BINARIES need to CKPT_TO, and
# the licences of all that is brought along or linked in (CKPT_LINKED_IN) to CKPT_DOC. The C library
# stays the system's own.

list(GET CKPT_BINARIES 0 program)
list(GET CKPT_BINARIES 1 library)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} LIBRARIES ${library}
	RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing
	PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread)\\.so" "^ld-linux")
if(missing)
	message(FATAL_ERROR "libraries that are nowhere: ${missing}")
endif()

# The Debian package of a file, and its licence.
function(take_licence file out)
	get_filename_component(name ${file} NAME)
	execute_process(COMMAND dpkg-query -S "*/${name}" OUTPUT_VARIABLE owner ERROR_QUIET)
	string(REGEX MATCH "^[^:,\n]+" package "${owner}")
	if(NOT package OR NOT EXISTS /usr/share/doc/${package}/copyright)
		message(FATAL_ERROR "no licence found for '${file}', and none may be left out: build the "
			"archive on Debian or Ubuntu, with the libraries from their packages")
	endif()
	get_filename_component(text /usr/share/doc/${package}/copyright REALPATH)
	configure_file(${text} ${CKPT_DOC}/licences/${package} COPYONLY)
	# Texts that are on every Debian system are only named there.
	file(READ ${text} words)
	string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z]+(-[0-9.]*[0-9])?" common "${words}")
	foreach(licence ${common})
		get_filename_component(name ${licence} NAME)
		configure_file(${licence} ${CKPT_DOC}/licences/${name} COPYONLY)
	endforeach()
	execute_process(COMMAND dpkg-query -W -f "\${source:Package} \${source:Version}" ${package}
		OUTPUT_VARIABLE source)
	set(${out} "${source}, licences/${package}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${CKPT_TO} ${CKPT_DOC}/licences)
set(note "What this archive brings along, beside ckpt itself, all of it unchanged from Debian or Ubuntu
packages: the file, the source package and its version, the licence. The C library is the system's own.

")
foreach(file ${found})
	get_filename_component(real ${file} REALPATH)
	get_filename_component(name ${file} NAME)
	take_licence(${real} source)
	configure_file(${real} ${CKPT_TO}/${name} COPYONLY)
	string(APPEND note "lib/ckpt/${name}: ${source}\n")
endforeach()
foreach(file ${CKPT_LINKED_IN})
	get_filename_component(name ${file} NAME)
	take_licence(${file} source)
	string(APPEND note "${name}, linked into bin/ckpt: ${source}\n")
endforeach()
file(WRITE ${CKPT_DOC}/LIBRARIES "${note}")
