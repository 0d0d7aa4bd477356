# SPDX-License-Identifier: Apache-2.0
#
# Copies the shared library LIBRARY to the folder TO, by the name that programs ask for (libzip.so.4).

file(REAL_PATH ${LIBRARY} real)
execute_process(COMMAND objdump -p ${real} OUTPUT_VARIABLE header COMMAND_ERROR_IS_FATAL ANY)
if(NOT header MATCHES "SONAME +([^ \n]+)")
	message(FATAL_ERROR "'${real}' has no SONAME")
endif()
configure_file(${real} ${TO}/${CMAKE_MATCH_1} COPYONLY)
