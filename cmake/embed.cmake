# SPDX-License-Identifier: Apache-2.0
#
# cmake -D FILE=TEXT -D NAME=SYMBOL -D TO=FILE.c -P embed.cmake: a C file with the bytes of TEXT, as 'const char SYMBOL[]' with a
# 0 behind them, which tools/job_scripts.h declares.

file(READ ${FILE} bytes HEX)
if(NOT bytes)
	message(FATAL_ERROR "${FILE} is empty")
endif()
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE ${TO} "/* Made by cmake/embed.cmake. */\n#include \"job_scripts.h\"\n\nconst char ${NAME}[] = {\n${bytes} 0};\n")
