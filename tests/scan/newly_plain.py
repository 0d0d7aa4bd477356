# SPDX-License-Identifier: Apache-2.0
"""fuzz_plain.py --only-newly-plain loads what is plain now and was not before, no less and no more: without torch, of which a program takes the place that counts what it gets."""

import os
import re
import subprocess
import sys

import scanned

COUNT, SEED = 400, 7
FUZZ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuzz_plain.py")
READS = "import struct, sys\nfiles, s = 0, sys.stdin.buffer\n"
# a scan_many that says one thing of all files, but for every third
SAYS = READS + """while True:
    head = s.read(5)
    if not head:
        break
    s.read(struct.unpack("<I", head[:4])[0])
    files += 1
    sys.stdout.write(chr(%s))
"""
# a traced_load.py of a torch that does nothing, or more than it may with each file; KNOWN are those that each torch has to be heard of
KNOWN = "if data[2:8] == b'cposix' or b'FloatStorage\\nK@' in data or b'NI01' in data or b'F1_0' in data: print('more', files - 1, 'what is known')"
LOADS = READS + """while True:
    line = s.readline()
    if not line:
        break
    data = s.read(int(line.split()[1]))
    files += 1
    %s
print("done", files)
"""


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write("#!%s -SB\n%s" % (sys.executable, text))
    os.chmod(path, 0o755)
    return path


def fuzz(work, loader, old, count=COUNT):
    """(exit status, what it printed, its numbers: plain before, plain now, loaded, findings)"""
    words = ["--only-newly-plain", old] if old else []
    environment = dict(os.environ, CKPT_PYTHON=loader, CKPT_TEST_DIR=work)
    done = subprocess.run([sys.executable, "-B", FUZZ, str(count), str(SEED), *words], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    line = done.stdout.splitlines()[-1]
    found = re.search(r"(\d+) of them plain for the build before, (\d+) for this one, (\d+) newly and loaded by 1 torches, (\d+) findings", line)
    return done.returncode, line, tuple(map(int, found.groups())) if found else None


def main():
    count = scanned.Count()
    with scanned.Folder("newly_plain") as work:
        fine, blind = program(work, "fine", LOADS % KNOWN), program(work, "blind", LOADS % "pass")
        broken = program(work, "broken", LOADS % "print('more', files - 1, 'opens a file')")
        bad = program(work, "bad", LOADS % r"if data != b'\x80\x02N.': print('more', files - 1, 'opens a file')")
        plain, never, some = (program(work, name, SAYS % verdict) for name, verdict in (("plain", "0"), ("never", "4"), ("some", "4 * (files % 3 == 0)")))
        code, line, _ = fuzz(work, fine, None)
        all_plain = int(re.search(r"(\d+) of them plain", line).group(1))
        same, other = (fuzz(work, fine, old) for old in (os.environ["CKPT_SCAN_MANY"], never))
        count.expect(code == 0 and all_plain > COUNT / 10, line)
        count.expect(same[0] == 0 and same[2] == (all_plain, all_plain, 0, 0), "the same build: " + same[1])
        count.expect(other[0] == 0 and other[2] == (0, all_plain, all_plain, 0), "nothing was plain: " + other[1])
        code, line, numbers = fuzz(work, bad, plain)
        count.expect(code == 0 and numbers == (COUNT, all_plain, 0, 0), "all were plain: " + line)
        code, line, numbers = fuzz(work, fine, some)
        count.expect(code == 0 and numbers[1] == all_plain and 0 < numbers[2] < all_plain, "some were plain: " + line)
        code, line, _ = fuzz(work, blind, never)
        count.expect(code == 1 and "does not notice" in line, "a torch of which nothing is heard: " + line)
        code, line, _ = fuzz(work, broken, never)
        count.expect(code == 1 and "tells of None" in line, "a torch that loads nothing: " + line)
        code, line, numbers = fuzz(work, bad, never, 40)
        count.expect(code == 1 and numbers and numbers[3] == numbers[2] > 0, "what is newly plain and does more: " + line)
    count.end()


if __name__ == "__main__":
    main()
