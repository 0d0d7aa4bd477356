# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py COLUMNS COMMAND...: what COMMAND prints on a terminal that is as wide; its exit code is the command's."""

import fcntl
import os
import pty
import struct
import sys
import termios

pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
printed = b""
while True:
    try:
        some = os.read(terminal, 65536)
    except OSError:
        break
    if not some:
        break
    printed += some
sys.stdout.buffer.write(printed.replace(b"\r\n", b"\n"))
sys.exit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
