# SPDX-License-Identifier: Apache-2.0
"""Try every cell of the table "What OUT becomes" in docs/formats.md: out_page.py [--print]

A row is a command, or all edits, and kinds of IN, for which inputs.py makes small ones. A column is a name of OUT. Where the table says
what is written, it is that; where it says no, the command fails, writes nothing, and what its hint says to type, if it is a command,
works and writes what the name says, as that command has it. Whatever the table says, no name of a file becomes a folder.
A command that takes no such IN under any name (remap of a safetensors file) has nothing to do with names, and is left out.
"""

import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import inputs  # noqa: E402

CKPT = os.environ["CKPT"]
PAGE = os.path.join(os.environ["CKPT_SOURCE_DIR"], "docs", "formats.md")
HEAD = "Command and IN"
NAMES = ["x.pt", "x.safetensors", "x.npz", "x.gguf", "x.index.json", "x", "x/"]

EDITS = [
    "strip-module --if-present", "add-module --if-present", "strip-prefix --if-present v.", "add-prefix x.", "rename --if-present -e s/w/v/",
    "remap --if-present --all cuda:0", "cast --if-present bf16", "compact --if-present", "sanitize --if-present", "extract PART",
    "select --if-present --keep NAME", "edit --add-prefix y. --if-present --compact", "average IN",
]
FOLLOWED = ["add-prefix x.", "remap --if-present --all cuda:0", "select --if-present --keep NAME", "average IN"]     # whose hints are typed
SINGLE = ["`torch.save` file (zip, torch 1.6 and later)", "legacy `torch.save` stream (torch 0.2 to 1.5)"]
PROGRAMS = ["TorchScript archive", "mobile model (`.ff`, `.ptl`)", "`torch.package` archive", "`torch.export` program (`.pt2`)"]
JOINED = ["rank files (`*_rank_N.pt`)", "DeepSpeed ZeRO directory", "`torch_checkpointing` directory"]
PARTS = "safetensors of single ranks (DCP's `HuggingFaceStorageWriter`)"
ANYTHING = SINGLE[:1] + PROGRAMS[1:2] + ["safetensors file", "DCP directory", "Hugging Face set of safetensors",
                                         "Hugging Face set of pickles", PARTS] + JOINED

ROWS = {
    "edits of a `torch.save` file, a legacy stream": (EDITS, SINGLE),
    "edits of a TorchScript archive, a mobile model, a `torch.package` archive, a `torch.export` program": (EDITS, PROGRAMS),
    "edits of a safetensors file": (EDITS, ["safetensors file"]),
    "edits of a DCP directory": (EDITS, ["DCP directory"]),
    "edits of a Hugging Face set of safetensors": (EDITS, ["Hugging Face set of safetensors"]),
    "edits of a Hugging Face set of pickles": (EDITS, ["Hugging Face set of pickles"]),
    "edits of safetensors of single ranks": (EDITS, [PARTS]),
    "edits of rank files, a DeepSpeed ZeRO directory, a `torch_checkpointing` directory": (EDITS, JOINED),
    "`merge` of anything": (["merge"], ANYTHING),
    "`convert` of anything": (["convert --drop-others"], ANYTHING),
    "`convert --to torch` of anything": (["convert --to torch"], ANYTHING),
    "`convert --shard-size` of anything": (["convert --drop-others --shard-size 1B"], ANYTHING),
    "`convert --to npy` of anything": (["convert --drop-others --to npy"], ANYTHING),
    "`split`, `reshard` of anything": (["split --ranks 2", "reshard --ranks 2"], ANYTHING),
    "`split --to safetensors` of anything": (["split --ranks 2 --to safetensors --drop-others"], ANYTHING),
    "`reindex` of a DCP directory": (["reindex"], ["DCP directory"]),
}

# how `ckpt info` calls them
FORMATS = {"torch zip": "zip", "safetensors": "safetensors", "DCP directory": "DCP", "Hugging Face shard set": "set",
           "DCP safetensors shards": "parts"}
# what a name promises, for what a hint says
PROMISED = {".pt": "zip", ".safetensors": "safetensors", ".npz": "npz"}

ENVIRONMENT = dict(os.environ, LC_ALL="C", ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
ENVIRONMENT["PATH"] = os.path.dirname(CKPT) + os.pathsep + ENVIRONMENT["PATH"]


def run(words, folder):
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def format_of(path, folder):
    code, out, _ = run([CKPT, "info", "--json", path], folder)
    return json.loads(out)["file"]["format"] if code == 0 else None


def word_of(name, folder, source, was):
    path = os.path.join(folder, name)
    if os.path.isdir(path) and any(one.endswith(".npy") for one in os.listdir(path)):
        return "npy"
    if name.endswith(".npz") and not os.path.isdir(path) and b"PK" == open(path, "rb").read(2) and format_of(name, folder) is None:
        return "npz"
    found = format_of(name, folder)
    if os.path.isdir(path) and found in ("safetensors", "torch zip"):   # a set of one file has no index
        found = "Hugging Face shard set"
    if source and found == was and os.path.isdir(path) == os.path.isdir(os.path.join(folder, source)):
        return "same"
    return FORMATS.get(found, str(found))


def follow(err, folder, name):
    """What is wrong with the command that ERR advises."""
    line = next((one[6:] for one in err.splitlines() if one.startswith("hint: ckpt ")), None)
    if not line:
        return "" if "\nhint: " in err else "no hint: " + err
    words = shlex.split(line)
    if "convert" in words and not words[3].endswith((".pt", ".gguf")) or "split" in words and "safetensors" in words:
        words.append("--drop-others")   # these small inputs have more than tensors
    code, _, said = run([CKPT] + words[1:], folder)
    if code == 1 and "--if-present" not in words:
        code, _, said = run([CKPT] + words[1:] + ["--if-present"], folder)
    if code:
        return "%s: %s" % (line, said)
    out = words[3]
    want = next((kind for end, kind in PROMISED.items() if out.endswith(end)), None)
    if want and "--to" not in words and word_of(out, folder, None, None) != want:
        return "%s: %s is no %s" % (line, out, want)
    return "" if os.path.isdir(os.path.join(folder, out)) == out.endswith("/") else line + ": a folder, or none"


def trial(words, name, made, follows):
    """The word for a cell, and what the command says."""
    source, was, path, tensor, *part = made
    with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR")) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        before = sorted(os.listdir(folder))
        named = {"NAME": tensor or "x", "PART": (part or [tensor])[0] or "x", "IN": path}
        command = [CKPT] + [named.get(word, word) for word in words.split()] + [path, name]
        code, out, err = run(command, folder)
        if code == 0:
            if not name.endswith("/") and "." in name and os.path.isdir(os.path.join(folder, name)):
                return "a folder of that name", out
            return word_of(name, folder, path if words in EDITS else None, was), out
        if sorted(os.listdir(folder)) != before:
            return "an error that leaves something behind", err
        if not err.startswith("ckpt: ") or "Sanitizer" in err:
            return "no clear error", err
        wrong = follow(err, folder, name) if follows and err.startswith("ckpt: %s: " % name) else ""
        return ("wrong hint", wrong) if wrong else ("no", err)


def main():
    with open(PAGE, encoding="utf-8") as file:
        lines = file.read().split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("| " + HEAD))
    table = []
    for number in range(start + 2, len(lines)):
        if not lines[number].startswith("|"):
            break
        table.append((number, [cell.strip() for cell in lines[number].strip().strip("|").split("|")]))
    wrong = [] if [cell.strip("` ") for cell in lines[start].strip("|").split("|")][1:] == NAMES else ["other names of OUT"]
    wrong += ["the page has other rows: %s" % one for one in {cells[0] for _, cells in table} ^ set(ROWS)]
    if wrong:
        sys.exit("\n".join(wrong))
    if os.environ.get("CKPT_TEST_DIR"):
        os.makedirs(os.environ["CKPT_TEST_DIR"], exist_ok=True)
    tried = left_out = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR")) as root, concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = {}
        for count, kind in enumerate(sorted({kind for _, kinds in ROWS.values() for kind in kinds})):
            folder = os.path.join(root, str(count))
            os.mkdir(folder)
            about = inputs.FORMATS[kind](folder)
            made[kind] = (folder, format_of(about[0], folder), *about)
        cells = {(row, words, kind, name): pool.submit(trial, words, name, made[kind], commands is not EDITS or words in FOLLOWED)
                 for row, (commands, kinds) in ROWS.items() for words in commands for kind in kinds for name in NAMES}
        for number, row in table:
            commands, kinds = ROWS[row[0]]
            found = list(row)
            for words in commands:
                for kind in kinds:
                    answers = {name: cells[row[0], words, kind, name].result() for name in NAMES}
                    if answers["x"][0] == "no" and row[6] != "no" and not answers["x"][1].startswith("ckpt: x: "):
                        left_out += 1
                        continue
                    for at, name in enumerate(NAMES, 1):
                        tried += 1
                        if answers[name][0] != row[at]:
                            wrong.append("%s, ckpt %s of %s, %s: the page says %r, it is %r:\n  %s" % (
                                row[0], words, kind, name, row[at], answers[name][0], answers[name][1].strip()[:400]))
                            found[at] = answers[name][0]
            lines[number] = "| " + " | ".join(found) + " |"
    if "--print" in sys.argv[1:]:
        print("\n".join(lines))
    elif wrong:
        sys.exit("\n".join(wrong))
    else:
        print("%d commands, %d left out: all cells are true" % (tried, left_out))


main()
