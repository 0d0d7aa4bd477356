# SPDX-License-Identifier: Apache-2.0
"""Makes what fuzz_container begins with: python3 tests/fuzz/container_seeds.py SEEDS"""

import io
import os
import sys
import zipfile

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "bad"), os.path.join(HERE, "..", "interop")]

from files import state_dict, tensor, torch_file  # noqa: E402
from tar_build import archive, members  # noqa: E402
import tar_cases  # noqa: E402


def zipped(*files, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in files:
            file.writestr(name, data)
    return out.getvalue()


def main():
    old = archive(members(*tar_cases.plain()), mtime=0).rstrip(b"\0")
    with open(os.path.join(HERE, "corpus", "fuzz_open", "legacy"), "rb") as stream:
        legacy = stream.read()
    seeds = {}
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        agent = zipped(("data", b'{"a": 1}'), ("policy.pth", torch_file()), ("old.pth", legacy), method=method)
        seeds[name] = agent
        seeds[name + "_tar"] = zipped(("old.tar", old), ("d/", b""), ("b.bin", b"\x80\x02N."), method=method)
        seeds[name + "_nested"] = zipped(("a::b.zip", agent), method=method)
        seeds[name + "_same"] = zipped(("x.pt", torch_file(state_dict(a=tensor(), b=tensor()))), method=method)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, data in seeds.items():
        with open(os.path.join(sys.argv[1], name), "wb") as stream:
            stream.write(data)


main()
