# SPDX-License-Identifier: Apache-2.0
"""Make a target's corpus small, and pack it: pack.py BUILD TARGET [FOLDER...]

Of the inputs in corpus/TARGET.zip and in the FOLDERs libFuzzer (BUILD/tests/fuzz/TARGET) keeps as many as it takes to reach all
that they reach together. They become corpus/TARGET.zip: stored, in the order of their names, without times, so that the same
inputs are the same bytes. Files in corpus/TARGET are regressions and seeds, whose names say what they are: every run is fed them
beside the archive, and they are not packed.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def read_all(archive, folders):
    """The bytes of every input, once."""
    inputs = set()
    if os.path.exists(archive):
        with zipfile.ZipFile(archive) as packed:
            inputs.update(packed.read(info) for info in packed.infolist())
    for folder in folders:
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as stream:
                inputs.add(stream.read())
    return inputs


def write_all(folder, inputs):
    os.mkdir(folder)
    for data in inputs:
        with open(os.path.join(folder, hashlib.sha1(data).hexdigest()), "wb") as out:
            out.write(data)


def minimize(program, inputs, work):
    """What reaches as much as INPUTS."""
    before, after = os.path.join(work, "before"), os.path.join(work, "after")
    write_all(before, inputs)
    os.mkdir(after)
    env = dict(os.environ, TMPDIR="/dev/shm" if os.access("/dev/shm", os.W_OK) else work)
    done = subprocess.run([program, "-merge=1", "-timeout=60", "-rss_limit_mb=2048", after, before], cwd=work, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout.decode(errors="replace")[-3000:])
    return read_all("", [after])


def pack(archive, inputs):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for name, data in sorted((hashlib.sha1(data).hexdigest(), data) for data in inputs):
            packed.writestr(zipfile.ZipInfo(name), data)


def main():
    build, target, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
    archive = os.path.join(CORPUS, target + ".zip")
    inputs = read_all(archive, folders)
    with tempfile.TemporaryDirectory() as work:
        few = minimize(os.path.abspath(os.path.join(build, "tests", "fuzz", target)), inputs, work)
    pack(archive, few)
    print("%s: %d inputs became %d, %d bytes" % (target, len(inputs), len(few), os.path.getsize(archive)))


if __name__ == "__main__":
    main()
