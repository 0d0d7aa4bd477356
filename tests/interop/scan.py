# SPDX-License-Identifier: Apache-2.0
"""What torch writes is never dangerous, and `ckpt scan` foretells of each file what torch.load(weights_only=True) says of it.

Every torch makes its files; every torch that has weights_only loads those of all, and agrees. CKPT, CKPT_PYTHON and
CKPT_TEST_DIR as for run.py.
"""
import json
import os
import re
import subprocess
import sys
import zipfile

import each_torch

LINE = re.compile(r"^load (\S+) (yes|no)(?: (.*))?$", re.M)
FORETOLD = ("1.13", "2.6", "2.14")

# not the unpickler's doing: what is rebuilt does not fit this torch, or the bytes of a tensor do not
ELSEWHERE = re.compile(
    r"don't know how to restore data location|Expected one of cpu|has no attribute|record size|"
    r"Trying to resize|Unknown layout|not recognized|Could not run|not implemented|Torch not compiled|"
    r"does not match expected size|missing .* required positional|takes \d+ positional|device type|storage has wrong byte size|"
    r"Storage size calculation overflowed|buffer_storage_size == num_elements|rebuilding sparse tensor|too many values to unpack|read.* past the end|invalid device|Invalid device|CUDA|unexpected keyword"
)


def run(command, work, *arguments):
    done = subprocess.run(command.split() + ["scan_files.py", *arguments], cwd=work, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False)
    return done.stdout


def version_of(command, work):
    done = subprocess.run(command.split() + ["-c", each_torch.ASK_VERSION], cwd=work,
                          stdout=subprocess.PIPE, encoding="utf-8", check=False)
    found = re.search(r"version (\d+\.\d+)", done.stdout)
    return found.group(1) if found else None


def scan(ckpt, folder):
    done = subprocess.run([ckpt, "scan", "--json", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return json.loads(done.stdout)["files"]


# functions that are called when the object is, or that run code by themselves: not what a file of tensors and containers has
CODE = re.compile(r"/(bound_methods|classes_and_functions|objects_with_state|operators|partials)[^/]*$")


# torch writes it, and cannot read it
TEXT_IDS = re.compile(r"\.p0\.pt$")


# Classes that are called with texts, or with objects that hold some.
CALLED = re.compile(r"/(found_arguments_in_the_state\w*|found_set_child_in_its_item)\.(\w+\.)?pt$")
# torch writes them, and when it reads them it copies numbers, or looks at them, before they are there
UNSET = re.compile(r"/(generators|found_generators_and_functions\w*|nested_tensor)\.legacy\.pt$")


def check_verdicts(found):
    bad = [f for f in found if not TEXT_IDS.search(f["path"]) and not ((UNSET.search(f["path"]) or CALLED.search(f["path"])) and f["verdict"] == "unreadable") and f["verdict"] not in ("plain", "needs-objects") and not (f["verdict"] == "dangerous" and CODE.search(f["path"]))]
    return ["%s is %s: %s" % (f["path"], f["verdict"], json.dumps(f["findings"])[:300]) for f in bad]


def check_loads(printed, version, foretold):
    right, wrong = 0, []
    for path, loads, why in LINE.findall(printed):
        wanted = bool(foretold[path]["weights_only"][version])  # null: what a save that failed left behind
        if loads == "no" and ELSEWHERE.search(why) and wanted:
            continue
        if wanted == (loads == "yes"):
            right += 1
        else:
            wrong.append("%s: foretold %s, torch %s says %s %s; refusals %s" % (
                path, wanted, version, loads, why[:300], json.dumps(foretold[path].get("refusals"))[:300]))
    return right, wrong


LIST = """
import torch, torch._weights_only_unpickler as unpickler
names = set(unpickler._get_allowed_globals())
if hasattr(unpickler, "_get_user_allowed_globals"):
    names |= set(unpickler._get_user_allowed_globals())
for name in sorted(names):
    print("allowed", name)
"""
NEVER = ("os.system", "builtins.eval", "builtins.frozenset", "builtins.bytes", "torch.load", "torch.float", "torch.Generator", "collections.deque",
         "torch.storage._load_from_bytes", "torch.cuda.UntypedStorage", "torch.sparse.BoolTensor", "numpy.dtype", "torch.int8_t", "torch.float33")


def write_import(path, name):
    """An archive of torch.save with nothing but a list with one class in it."""
    module, _, attribute = name.rpartition(".")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02]c%s\n%s\na." % (module.encode(), attribute.encode()))
        archive.writestr("archive/version", b"3\n")


def check_lists(ckpt, work, versions):
    """Each name that one of the versions allows is allowed by those that list it, and by no other."""
    allowed = {}
    for version, command in versions.items():
        if version in FORETOLD:
            done = subprocess.run(command.split() + ["-c", LIST], cwd=work, stdout=subprocess.PIPE, encoding="utf-8", check=False)
            allowed[version] = set(re.findall(r"^allowed (\S+)$", done.stdout, re.M))
    names = sorted(set().union(*allowed.values()) | set(NEVER))
    folder = os.path.join(work, "names")
    os.mkdir(folder)
    for name in names:
        write_import(os.path.join(folder, name + ".pt"), name)
    right, wrong = 0, []
    for found in scan(ckpt, folder):
        name = os.path.basename(found["path"])[:-3]
        for version, known in allowed.items():
            if found["weights_only"][version] == (name in known):
                right += 1
            else:
                wrong.append("%s: torch %s allows it: %s" % (name, version, name in known))
    return right, wrong


def check_all(ckpt, commands, work):
    foretold, versions = {}, {}
    for command in commands:
        version = version_of(command, work)
        if version:
            versions[version] = command
            run(command, work, "make", "out-" + version)
    right, wrong = check_lists(ckpt, work, versions)
    for version in versions:
        found = scan(ckpt, os.path.join(work, "out-" + version))
        print("torch %s wrote %d files" % (version, len(found)))
        wrong += check_verdicts(found)
        right += len(found)
        foretold.update({os.path.relpath(f["path"], work): f for f in found})
    for version, command in versions.items():
        if version in FORETOLD:
            printed = run(command, work, "load", *("out-" + v for v in versions))
            more, bad = check_loads(printed, version, foretold)
            print("torch %s agrees on %d files, not on %d" % (version, more, len(bad)))
            if more < 300:
                wrong.append("torch %s loads %d files: %s" % (version, more, printed[-300:]))
            right += more
            wrong += bad
    return right, wrong


if __name__ == "__main__":
    sys.exit(each_torch.run_together("scan", check_all))
