# SPDX-License-Identifier: Apache-2.0
"""A plain tar archive is no program: tar_names.py [COUNT] [FIRST SEED]

Python until 3.11 joins the name of the first member with lines of its bytes. Tars are made whose name and lines could become a program that says RAN;
those that the scan calls plain are run by the Pythons of CKPT_PYTHON, as files of their own.
"""

import io
import os
import random
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scanned  # noqa: E402

SAY = "print('RAN')"
WORDS = ["data", "model", "dir", "len", "None", "x", "_", "type", "match", "print", "weights", "if", "not", "or", "in", "é", "ｌｅｎ", "__name__", "OSError", "pass", "lambda", "0", "1", "1.5", "2024_m", "7b",
         "0x1f", "1e5", "1j", "1or", "0x1for", "r", "rb", "StopIteration", "import", "os", "del", "a"]
JOINTS = ["/", "/", ".", ".", "-", "+", " ", "=", ",", "//", ":", "==", "(", ")", "[", "]", "'", "\"", "#", ";", "\\", "*", "~", "@", "..", "$", "|", "_", ""]
ENDS = ["=1;%s", " if 0 else %s", ":%s", ",=%s,", "(%s)", "[%s]", " and %s", " or %s", " in [%s]", ".x=%s", "==0 if 0 else %s", "'+str(%s)+'", "\n%s", "j;%s", "e5;%s", "0;%s", " is 0;%s", "#\n%s", "\\\n%s", ";%s",
        " x:\n case _:%s", "\"\n%s", "'\n%s", " import os\n%s", "()\n%s", "-1 if %s else 0", "/1 if %s else 0", ".5 if %s else 1", "5 if %s else 1", "=%s", ":int=%s", " x=%s", "[0] if %s else 0", "\r%s", "\r\n%s", "\0\n%s",
        "\0\0\r=%s", " \\\n if %s else 0", "=[%s", "={%s:0,", "\f%s", " %s", "%s", "\x01%s", "\xe9%s", "_=%s", "'''%s'''\n%s", "=0\n%s"]
RUN = """
import glob, subprocess, sys
for path in sorted(glob.glob("tar_*.tar")):
    done = subprocess.run([sys.executable, "-S", "-E", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if b"RAN" in done.stdout:
        print("ran", path)
print("done", sys.version.split()[0])
"""


def make(seed):
    rng = random.Random(seed)
    name = rng.choice(WORDS)
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])):
        name += rng.choice(JOINTS[:9] if rng.random() < 0.8 else JOINTS) + rng.choice(WORDS)
    if rng.random() < 0.05:
        name = rng.choice([" ", "./", "../", "...", "-", "+", "*", "\ufeff", "("]) + name
    end = rng.choice(ENDS)
    data = rng.choice(["x", "", "\xff", "\0", "a" * rng.choice([300, 480, 600, 1100, 9000])]).encode("latin1") + rng.choice([b"\n"] * 6 + [b"\r", b"\r\n", b"\0"])
    data += (end.replace("%s", SAY)).encode() + rng.choice([b"\n", b"", b"\n\0", b"\r", b"\n#\0"])
    if rng.random() < 0.2:  # where a buffer of the C library ends
        room = rng.choice([1023, 8191]) - 512 + rng.randrange(-1, 2)
        data = bytes(room) + data if rng.random() < 0.5 else data.ljust(room, rng.choice([b"\0", b"a"]))
    if rng.random() < 0.2:
        data += b"\xff" * rng.randrange(1, 3)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.USTAR_FORMAT) as tar:
        while len(name.encode()) > 100:
            name = name[:-1]
        info = tarfile.TarInfo(name.rstrip("/") or "x")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def main():
    if not os.environ.get("CKPT_PYTHON"):
        print("skipped: CKPT_PYTHON is not set, no Python to run tars with")
        return 77
    count, first = (int(sys.argv[1]) if len(sys.argv) > 1 else 2000), (int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    wrong, plain = [], 0
    with scanned.Folder("tar-names") as folder:
        os.chmod(folder, 0o755)
        paths = []
        for seed in range(first, first + count):
            paths.append(os.path.join(folder, "tar_%d.tar" % seed))
            with open(paths[-1], "wb") as stream:
                stream.write(make(seed))
        found = {}
        for start in range(0, count, 500):
            found.update(scanned.scan(*paths[start : start + 500])[1])
        for path, one in found.items():
            if one["verdict"] == "plain":
                plain += 1
            elif not os.environ.get("CKPT_RUN_ALL"):
                os.unlink(path)
        with open(os.path.join(folder, "run.py"), "w", encoding="utf-8") as script:
            script.write(RUN)
        for command in os.environ["CKPT_PYTHON"].split(";"):
            done = subprocess.run(command.split() + ["run.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False)
            lines = done.stdout.splitlines()
            if not lines or not lines[-1].startswith("done "):
                wrong.append("%s ended before its time" % command)
            ran = [line[4:] for line in lines if line.startswith("ran ")]
            print("%s: %d of them ran" % (command, len(ran)))
            wrong += ["%s runs %s, which is plain" % (command, path) for path in ran if found[os.path.join(folder, path)]["verdict"] == "plain"]
    for text in wrong[:20]:
        print("FAIL " + text)
    print("%d tars, %d of them plain" % (count, plain))
    return 1 if wrong or plain * 20 < count else 0


if __name__ == "__main__":
    sys.exit(main())
