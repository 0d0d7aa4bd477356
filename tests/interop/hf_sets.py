# SPDX-License-Identifier: Apache-2.0
"""Shard sets beside those that huggingface_hub writes of the same state dicts, byte for byte; and read back. And what DCP
writes of safetensors, merged.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' CKPT_SAFETENSORS=packages python3 tests/interop/hf_sets.py

The packages huggingface_hub and safetensors, with what they need, lie in the folder that CKPT_SAFETENSORS names. Work goes on
in a new folder below CKPT_TEST_DIR, or else the current one. Ends with 77 if there is no torch of 2.6 or later, or no package.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import each_torch  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = 60
PACKAGES = ["huggingface_hub", "safetensors", "packaging", "tqdm", "yaml", "filelock", "fsspec", "typing_extensions.py",
            "requests", "httpx", "httpcore", "h11", "anyio", "idna", "certifi", "sniffio", "click", "typer", "hf_xet", "shellingham"]


def ckpt(*arguments):
    done = subprocess.run([os.environ["CKPT"], *arguments], capture_output=True, encoding="utf-8", timeout=120)
    return done.returncode, done.stdout, done.stderr


class Checks:
    passed = failed = 0

    def check(self, right, text):
        if right:
            self.passed += 1
        else:
            self.failed += 1
            print("FAIL " + text)


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def header(data):
    """Several pairs of metadata are in no order, in the package's files."""
    length = int.from_bytes(data[:8], "little")
    parsed = json.loads(data[8:8 + length])
    return len(parsed.get("__metadata__", {})), parsed, data[8 + length:]


def same(name, mine, theirs):
    if mine == theirs:
        return True
    if name.endswith(".json"):
        a, b = json.loads(mine), json.loads(theirs)     # the order of groups of shared tensors is that of a set
        return len(b["metadata"]) > 2 and a == b
    if name.endswith(".safetensors"):
        a, b = header(mine), header(theirs)
        return b[0] > 1 and a == b
    return False


def check_written(at, kind, limit, checks):
    mine = os.path.join(at, "my-" + kind)
    options = ["--to", "safetensors", "--shared", "alias"] if kind == "st" else ["--to", "torch"]
    status, _, err = ckpt("convert", *options, "--shard-size", limit, os.path.join(at, "in.pt"), mine)
    checks.check(status == 0, "%s: %s" % (mine, err))
    if status:
        return
    wanted = sorted(os.listdir(os.path.join(at, kind)))
    checks.check(sorted(os.listdir(mine)) == wanted, "%s: %s, wanted %s" % (mine, sorted(os.listdir(mine)), wanted))
    for name in wanted:
        if os.path.exists(os.path.join(mine, name)):
            right = same(name, read(os.path.join(mine, name)), read(os.path.join(at, kind, name)))
            checks.check(right, "%s/%s: not the same bytes" % (mine, name))


def check_read(at, kind, checks):
    theirs = os.path.join(at, kind)
    status, _, err = ckpt("convert", "--to", "torch", theirs, theirs + ".pt")
    checks.check(status == 0, "%s: %s" % (theirs, err))
    status, out, err = ckpt("diff", theirs, os.path.join(at, "my-" + kind))
    checks.check(status == 0, "%s: %s%s" % (theirs, out, err))
    status, out, err = ckpt("verify", theirs)
    fine = "%s: complete" % theirs in out if kind == "st" else status == 0      # safetensors have no checksums
    checks.check(fine, "%s: %s%s" % (theirs, out, err))


def check_dcp(number, python, checks):
    """What four ranks wrote with HuggingFaceStorageWriter, and with the plain writer's safetensors."""
    folder = "dcp%d" % number
    done = subprocess.run(python + ["hf_dcp_save.py", folder], capture_output=True, encoding="utf-8", timeout=300)
    if "saved by torch" not in done.stdout:
        raise SystemExit("hf_dcp_save.py failed:\n" + done.stdout + done.stderr[-4000:])
    whole, part = folder + "/whole.pt", folder + "/part.pt"
    for name in ("one", "two", "dist", "dist2", "generic", "mixed", "cons/sharded"):
        at, merged = os.path.join(folder, name), os.path.join(folder, "merged.pt")
        status, _, err = ckpt("merge", "-f", at, merged)
        checks.check(status == 0, "%s: %s" % (at, err))
        status, out, err = ckpt("diff", part if name == "cons/sharded" else whole, merged)
        more = "only in %s:\n  epoch  7\n  name   'hello'\n" % merged
        fine = out.startswith(more) and "; 8 tensors are the same" in out if name == "mixed" else status == 0
        checks.check(fine, "%s: %s%s" % (at, out, err))
        status, out, err = ckpt("verify", at)
        checks.check(" damaged" not in out and not err.startswith("ckpt:"), "%s: %s%s" % (at, out, err))
    check_split(folder, python, checks)
    os.remove(folder + "/dist/shard-00002-model-00001-of-00001.safetensors")
    status, _, err = ckpt("merge", "-f", folder + "/dist", folder + "/merged.pt")
    checks.check(status == 2 and "is in none of them" in err, err)
    status, _, err = ckpt("reshard", folder + "/generic", folder + "/torch", "--ranks", "3")
    checks.check(status == 0, err)
    checks.check(ckpt("diff", folder + "/torch", whole)[0] == 0, "resharded")
    checks.check(ckpt("add-module", folder + "/generic", folder + "/none")[0] == 2, "edited")


def parts(path):
    """Name -> (dtype, shape, where it begins, bytes) of a rank's file, parts without items left out; and the other metadata."""
    data = read(path)
    length = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:8 + length])
    metadata = entries.pop("__metadata__")
    offsets = json.loads(metadata.pop("DCP_SHARDING_INFO"))
    found = {name: (entry["dtype"], entry["shape"], offsets[name],
                    data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
             for name, entry in entries.items() if 0 not in entry["shape"]}
    return found, metadata


def check_split(folder, python, checks):
    """Files of ranks, beside torch's of the same cut; read by torch, and here."""
    whole, made = folder + "/whole.pt", []
    status, _, err = ckpt("split", "--to", "safetensors", "--ranks", "4", folder + "/rows.pt", folder + "/own-rows")
    checks.check(status == 0, err)
    names = sorted(os.listdir(folder + "/rows"))
    checks.check(sorted(os.listdir(folder + "/own-rows")) == names and len(names) == 4, "own-rows: other files than torch's")
    for name in names:
        right = parts(os.path.join(folder, "own-rows", name)) == parts(os.path.join(folder, "rows", name))
        checks.check(right, "own-rows/%s: not what torch writes" % name)
    for ranks, more, source in (("1", [], whole), ("3", [], whole), ("4", [], whole), ("11", [], whole), ("3", ["--dim", "best"], whole),
                                ("2", ["--dim", "1"], whole), ("3", ["--keep-whole", "100"], whole), ("3", [], folder + "/generic"),
                                ("5", [], folder + "/dist"), ("2", [], folder + "/one")):
        name = "own-%d" % len(made)
        made.append(name)
        at = os.path.join(folder, name)
        status, _, err = ckpt("split" if source is whole else "reshard", "--to", "safetensors", "--ranks", ranks, *more, source, at)
        checks.check(status == 0, "%s: %s" % (name, err))
        status, out, err = ckpt("diff", at, whole)
        checks.check(status == 0, "%s: %s%s" % (name, out, err))
    done = subprocess.run(python + ["hf_dcp_save.py", folder, "load"] + made, capture_output=True, encoding="utf-8", timeout=300)
    checks.check(sorted(line.split()[:2] for line in done.stdout.splitlines()) == sorted(["EQUAL", name] for name in made),
                 "torch reads: " + done.stdout + done.stderr[-2000:])


def check_torch(number, python, checks):
    text = subprocess.run(python + ["-c", each_torch.ASK_VERSION],
                          capture_output=True, encoding="utf-8", timeout=600).stdout
    version = re.search(r"torch version (\d+)\.(\d+)", text)
    if not version or tuple(map(int, version.groups())) < (2, 6):
        return False
    folder = "torch%d" % number
    done = subprocess.run(python + ["hf_save.py", "save", folder, str(CASES)], capture_output=True, encoding="utf-8",
                          timeout=900)
    if "no package" in done.stdout:
        print(done.stdout, end="")
        return False
    if "saved by torch" not in done.stdout:
        raise SystemExit("hf_save.py failed:\n" + done.stdout + done.stderr[-4000:])
    for case in sorted(os.listdir(folder), key=int):
        at = os.path.join(folder, case)
        for kind in ("st", "pt"):
            if os.path.isdir(os.path.join(at, kind)):
                check_written(at, kind, read(os.path.join(at, "limit")).decode(), checks)
                check_read(at, kind, checks)
    done = subprocess.run(python + ["hf_save.py", "compare", folder], capture_output=True, encoding="utf-8", timeout=600)
    lines = done.stdout.splitlines()
    checks.check(len(lines) > CASES, done.stderr[-2000:])
    for line in lines:
        checks.check(line.startswith("EQUAL "), line)
    if tuple(map(int, version.groups())) >= (2, 9):
        check_dcp(number, python, checks)
    return True


def main():
    pythons = [shlex.split(command) for command in os.environ.get("CKPT_PYTHON", "").split(";") if command.strip()]
    os.environ["CKPT"] = os.path.abspath(os.environ["CKPT"])
    packages = os.environ.get("CKPT_SAFETENSORS")
    base = os.environ.get("CKPT_TEST_DIR", ".")
    os.makedirs(base, exist_ok=True)
    work = tempfile.mkdtemp(prefix="hf-sets-", dir=base)
    for name in PACKAGES if packages else ():
        at = os.path.join(packages, name)
        if os.path.isdir(at):
            shutil.copytree(at, os.path.join(work, "packages", name))
        elif os.path.exists(at):
            os.makedirs(os.path.join(work, "packages"), exist_ok=True)
            shutil.copy(at, os.path.join(work, "packages"))
    os.chmod(work, 0o755)
    checks, used = Checks(), 0
    os.chdir(work)
    for script in ("hf_save.py", "hf_dcp_save.py"):
        shutil.copy(os.path.join(HERE, script), ".")
    try:
        for number, python in enumerate(pythons):
            used += check_torch(number, python, checks)
    finally:
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)
    if not used:
        print("skipped: CKPT_PYTHON names no torch of 2.6 or later with the packages huggingface_hub and safetensors")
        return 77
    print("%d passed, %d failed" % (checks.passed, checks.failed))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
