# SPDX-License-Identifier: Apache-2.0
"""Quantized weights as numbers, held against the packages that write them, bit by bit.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' [CKPT_QUANT_SITE=folder;folder] python3 tests/interop/quantized.py
    python3 tests/interop/quantized.py write FOLDER [PATTERN...]     only make the references (needs no ckpt)
    python3 tests/interop/quantized.py judge FOLDER [PATTERN...]     only run ckpt over references that are there (needs no torch)

CKPT_QUANT_SITE names folders of unpacked packages, separated by `;`: compressed-tensors, transformers, torchao, bitsandbytes, nvidia-modelopt,
gpt-oss, auto-gptq, autoawq and what they need. What a package cannot be asked for comes from the formulas of quantized_files.py, and which of
both it was is told. Ends with 77 if no torch of CKPT_PYTHON is of 2.8 or later.
"""

import collections
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import each_torch  # noqa: E402

TARGETS = {"bf16": ("BF16", 2), "f16": ("F16", 2), "f32": ("F32", 4)}
INFINITE = {"bf16": 0x7F80, "f16": 0x7C00, "f32": 0x7F800000}
# What of the packages no test needs, and is large.
LEFT = re.compile(r"lib(bitsandbytes_(cuda|rocm|xpu)|.*cuda).*\.so|scipy.*|auto_gptq.libs|.*_kernels.cpython.*|autogptq_.*\.so|tests?|examples|__pycache__|llmcompressor.*")


def read(path):
    """{name: (code, shape, bytes)}, metadata"""
    with open(path, "rb") as stream:
        data = stream.read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    return {name: (one["dtype"], one["shape"], data[8 + length + one["data_offsets"][0]:8 + length + one["data_offsets"][1]]) for name, one in header.items()}, metadata


def is_nan(bits, target):
    return bits & (0x7FFFFFFF if target == "f32" else 0x7FFF) > INFINITE[target]


OTHER_NAN = collections.Counter()       # of what target, how many NaN had other bits than torch's


def difference(wanted, found, target):
    """Of bytes of TARGET: every bit, but of NaN, whose bits no package tells of; they are counted."""
    size = TARGETS[target][1]
    if wanted == found:
        return ""
    if len(wanted) != len(found):
        return "%d bytes, not %d" % (len(found), len(wanted))
    differ, first = 0, ""
    for at in range(0, len(wanted), size):
        one, other = wanted[at:at + size], found[at:at + size]
        if one == other:
            continue
        one, other = int.from_bytes(one, "little"), int.from_bytes(other, "little")
        if is_nan(one, target) and is_nan(other, target):
            OTHER_NAN[target] += 1
            continue
        differ += 1
        first = first or "the first at %d: 0x%x, wanted 0x%x" % (at // size, other, one)
    return "%d of %d differ, %s" % (differ, len(wanted) // size, first) if differ else ""


def write_file(path, tensors, metadata):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (code, shape, data) in tensors.items():
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))


def write_set(folder, target):
    """The case as a set of two files, in which nearly every weight is apart from its scales."""
    tensors, metadata = read(os.path.join(folder, "model.safetensors"))
    os.makedirs(target)
    places = {}
    for number in range(2):
        name = "model-%05d-of-00002.safetensors" % (number + 1)
        part = {one: tensors[one] for one in sorted(tensors)[number::2]}
        write_file(os.path.join(target, name), part, {"format": "pt", **metadata})
        places.update(dict.fromkeys(part, name))
    with open(os.path.join(target, "model.safetensors.index.json"), "w", encoding="utf-8") as stream:
        json.dump({"metadata": {"total_size": sum(len(data) for _, _, data in tensors.values())}, "weight_map": places}, stream)
    for name in os.listdir(folder):
        if name in ("config.json", "hf_quant_config.json"):
            shutil.copy(os.path.join(folder, name), target)


def read_any(path):
    """A file, or all files of a set."""
    if not os.path.isdir(path):
        return read(path)
    tensors, metadata = {}, {}
    for name in sorted(os.listdir(path)):
        if name.endswith(".safetensors"):
            more, told = read(os.path.join(path, name))
            tensors.update(more)
            metadata.update(told)
    return tensors, metadata


def compare(folder, target, out):
    """What is wrong with OUT."""
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as stream:
        case = json.load(stream)
    given, _ = read(os.path.join(folder, "model.safetensors"))
    wanted, _ = read(os.path.join(folder, "expected-%s.safetensors" % target))
    found, metadata = read_any(out)
    wrong = []
    for name in sorted((set(given) - set(case["gone"])) | set(wanted)):
        if name not in found:
            wrong.append("'%s' is missing" % name)
        elif name not in wanted:
            if found[name] != given[name]:
                wrong.append("'%s' is not quantized, and is another now" % name)
        elif found[name][:2] != wanted[name][:2]:
            wrong.append("'%s' is %s %s, wanted %s %s" % (name, *found[name][:2], *wanted[name][:2]))
        else:
            text = difference(wanted[name][2], found[name][2], target)
            wrong += ["'%s': %s" % (name, text)] if text else []
    for name in sorted(set(found) - set(wanted) - (set(given) - set(case["gone"]))):
        wrong.append("'%s' is still there" % name)
    if case["kind"] == "torchao" and any('"_tensor_data_names"' in text for text in metadata.values()):
        wrong.append("the metadata still tells of quantized tensors")
    return wrong


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def read_as(folder):
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as stream:
        said = json.load(stream)["as"]
    return ["--as", said] if said else []


def judge_one(ckpt, folder, target, source, out):
    """What is wrong with what ckpt makes of SOURCE, a file or a set of the case in FOLDER."""
    remove(out)
    done = subprocess.run([*shlex.split(ckpt), "cast", "--dequantize", target, *read_as(folder), source, out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", errors="replace", timeout=120)
    if done.returncode or not os.path.exists(out):
        return ["exit status %d: %s" % (done.returncode, done.stderr.strip())]
    wrong = compare(folder, target, out)
    remove(out)
    return wrong


def judge(ckpt, references, only):
    passed, failed = 0, []
    for name in sorted(os.listdir(references)):
        folder = os.path.join(references, name)
        if only and not any(fnmatch.fnmatch(name, pattern) for pattern in only) or not os.path.exists(os.path.join(folder, "case.json")):
            continue
        for target in TARGETS:
            wrong = judge_one(ckpt, folder, target, os.path.join(folder, "model.safetensors"), os.path.join(references, "out.safetensors"))
            passed += not wrong
            failed += ["%s, %s: %s" % (name, target, text) for text in wrong[:6]]
        parts = os.path.join(references, "set.in")
        remove(parts)
        write_set(folder, parts)
        wrong = judge_one(ckpt, folder, "bf16", parts, os.path.join(references, "set.out"))
        remove(parts)
        passed += not wrong
        failed += ["%s, bf16, a set: %s" % (name, text) for text in wrong[:6]]
    return passed, failed


def link(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def put_packages(site, work):
    target = os.path.join(work, "packages")
    shutil.rmtree(target, ignore_errors=True)
    if site:
        shutil.copytree(site, target, copy_function=link, ignore=lambda _, names: [name for name in names if LEFT.fullmatch(name)])


def newest_torch():
    """The last command of CKPT_PYTHON whose torch has all the types."""
    for command in reversed(os.environ.get("CKPT_PYTHON", "").split(";") if os.environ.get("CKPT_PYTHON") else []):
        done = subprocess.run([*shlex.split(command), "-c", each_torch.ASK_VERSION], stdout=subprocess.PIPE, encoding="utf-8")
        found = re.search(r"torch version (\d+)\.(\d+)", done.stdout)
        if found and tuple(map(int, found.groups())) >= (2, 8):
            return command
    return None


def by_formula(references):
    """Cases that no package has spoken of yet."""
    for name in sorted(os.listdir(references)):
        if not os.path.exists(os.path.join(references, name, "case.json")):
            continue        # what makes them failed, and that is told
        with open(os.path.join(references, name, "case.json"), encoding="utf-8") as stream:
            if json.load(stream)["by"] == ["the formula"]:
                yield name


def write(command, work, only):
    """References in WORK/references. True, if formulas and packages agree."""
    right = True
    for site in os.environ.get("CKPT_QUANT_SITE", "").split(";"):
        if os.path.isdir(os.path.join(work, "references")):
            only = list(by_formula(os.path.join(work, "references")))
            if not only:
                break
        put_packages(site, work)
        done = subprocess.run([*shlex.split(command), "quantized_files.py", "references", *only], cwd=work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
        print(done.stdout.strip())
        right = right and done.returncode == 0
    return right


def tell(passed, failed):
    for text in failed:
        print("FAIL", text)
    if OTHER_NAN:
        print("of NaN, other bits than torch's: %s" % ", ".join("%d in %s" % (count, target) for target, count in sorted(OTHER_NAN.items())))
    return each_torch.tell(passed, len(failed))


def main():
    how = sys.argv[1] if sys.argv[1:] else "all"
    if how == "judge":
        return tell(*judge(os.environ["CKPT"], sys.argv[2], sys.argv[3:]))
    command = newest_torch()
    if command is None:
        print("skipped: CKPT_PYTHON names no torch of 2.8 or later")
        return each_torch.SKIPPED
    with each_torch.folder("quantized") as work:
        right = write(command, work, sys.argv[3:])
        references = os.path.join(work, "references")
        if how == "write":
            for name in os.listdir(references):
                shutil.copytree(os.path.join(references, name), os.path.join(sys.argv[2], name), dirs_exist_ok=True)
            return 0 if right else 1
        passed, failed = judge(os.environ["CKPT"], references, [])
    return tell(passed, failed + ([] if right else ["formulas and packages do not agree"]))


if __name__ == "__main__":
    sys.exit(main())
