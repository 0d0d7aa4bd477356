# SPDX-License-Identifier: Apache-2.0
#
# cmake -D CKPT=BINARY -D TO=FOLDER -P pages.cmake: the man pages and the completions, all printed
# by the command itself, from the same tables as its --help.

function(run out)
	execute_process(COMMAND ${CKPT} ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE rc)
	if(NOT rc EQUAL 0)
		list(JOIN ARGN " " args)
		message(FATAL_ERROR "'ckpt ${args}' failed: ${rc}")
	endif()
	set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(print_to file)
	run(text ${ARGN})
	file(WRITE ${TO}/${file} "${text}")
endfunction()

# Makes roff of a line of plain text.
function(roff out text)
	string(REPLACE "\\" "\\e" text "${text}")
	string(REPLACE "-" "\\-" text "${text}")
	string(REGEX REPLACE "^([.'])" "\\\\&\\1" text "${text}")
	set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${TO})
file(MAKE_DIRECTORY ${TO}/man1)

# The lines of 'ckpt help' that begin with two blanks are "  COMMAND  SUMMARY".
run(overview help)
string(REGEX MATCH "\nCommon tasks:\n(([^\n]+\n)+)" tasks "${overview}")
roff(tasks "${CMAKE_MATCH_1}")
if(NOT tasks)
	message(FATAL_ERROR "'ckpt help' names no common tasks")
endif()
string(REPLACE ";" "," overview "${overview}")
string(REGEX MATCHALL "\n  [a-z][a-z-]*  *[^\n]*" lines "${overview}")
string(REGEX MATCH "^ckpt ([^:]*): ([^\n]*)" title "${overview}")
set(version ${CMAKE_MATCH_1})
roff(about "${CMAKE_MATCH_2}")
foreach(line ${lines})
	string(REGEX MATCH "^\n  ([a-z-]*)  *(.*)" line "${line}")
	set(command ${CMAKE_MATCH_1})
	set(summary "${CMAKE_MATCH_2}")
	print_to(man1/ckpt-${command}.1 help --man ${command})
	roff(name "${command}")
	roff(summary "${summary}")
	string(APPEND entries ".TP\n.BR ckpt\\-${name} (1)\n${summary}\n")
endforeach()
if(NOT entries)
	message(FATAL_ERROR "'ckpt help' names no command")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/ckpt.1.in ${TO}/man1/ckpt.1 @ONLY)

print_to(ckpt.bash completion bash)
print_to(_ckpt completion zsh)
print_to(ckpt.fish completion fish)
