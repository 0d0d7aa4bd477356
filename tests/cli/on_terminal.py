# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py COLUMNS COMMAND...: what COMMAND prints on a terminal that is as wide; its exit code is the command's.

The terminal is held open here until all of it is read: what is printed just before the last one closes a terminal may
be gone by the time it is asked for. A byte that no command prints is the end.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading

END = b"\x04\x1c"

reader, terminal = pty.openpty()
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
command = subprocess.Popen(
    sys.argv[2:],
    stdin=terminal,
    stdout=terminal,
    stderr=terminal,
    start_new_session=True,
    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
)


def mark_the_end():
    command.wait()
    os.write(terminal, END)


threading.Thread(target=mark_the_end, daemon=True).start()
printed = b""
while not printed.endswith(END):
    printed += os.read(reader, 65536)
sys.stdout.buffer.write(printed.removesuffix(END).replace(b"\r\n", b"\n"))
sys.stdout.flush()
code = command.returncode
if code < 0:
    sys.exit(f"on_terminal.py: {sys.argv[2]} ended by signal {-code}")
sys.exit(code)
