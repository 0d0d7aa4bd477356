# SPDX-License-Identifier: Apache-2.0
"""Try every cell of the tables in docs/formats.md: formats_page.py [--print]

A row is a format, for which inputs.py makes a small file or directory. A column is one or more commands. What a cell says must come true:

    yes, no         the command succeeds, or ends with an error that begins with 'ckpt: ', and writes nothing
    same            it succeeds, and what it writes is of the format of the input
    zip, ...        it succeeds, and what it writes is of that format (FORMATS below)
    no checksums    of `verify`: it opens the input, and says that it cannot tell
    no effect       of `remap`: it succeeds, and no tensor is where it was to go

A column that says yes for a command that writes one format (COLUMNS) is held against that format too. No input may change, but with -i.
--print writes the tables as they ought to be.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import inputs  # noqa: E402

CKPT = os.environ["CKPT"]
PAGE = os.path.join(os.environ["CKPT_SOURCE_DIR"], "docs", "formats.md")

# how `ckpt info` calls them
FORMATS = {
    "zip": "torch zip", "legacy": "torch legacy stream", "safetensors": "safetensors", "DCP": "DCP directory",
    "set": "Hugging Face shard set", "parts": "DCP safetensors shards", "npz": None, "npy": None,
}


def reads(*commands):
    return [([name, "IN"] + ["NAME"] * (name == "cat") + ["IN"] * (name == "diff"), None) for name in commands]


def writes(words, form=None):
    return [([*words.split(), "IN", "OUT"], form)]


# header: [(words, what is written)]; the same cell holds for all commands of a column
COLUMNS = {
    "`ls` `info` `cat` `stat` `diff`": reads("ls", "info", "cat", "stat", "diff"),
    "`verify`": reads("verify"),
    "`scan`": reads("scan"),
    "`why`": reads("why"),
    "`dis`": reads("dis"),
    "`strip-module` `add-prefix` `rename`": writes("strip-module --if-present", "edit") + writes("add-prefix x.", "edit")
    + writes("rename --if-present -e s/w/v/", "edit"),
    "`remap`": writes("remap --if-present --all cuda:0", "moved"),
    "`cast` `compact`": writes("cast bf16", "edit") + writes("compact --if-present", "edit"),
    "`sanitize`": writes("sanitize --if-present", "edit"),
    "`select`": writes("select --drop NAME", "edit"),
    "`extract`": writes("extract PART", "edit"),
    "`rename -i`": [(["add-prefix", "-i", "x.", "IN"], "edit")],
    "`cast -i`": [(["cast", "-i", "bf16", "IN"], "edit")],
    "`average`": writes("average IN", "edit"),
    "`convert --to torch`": writes("convert --to torch", "zip"),
    "`--to torch-legacy`": writes("convert --to torch-legacy", "legacy"),
    "`--to safetensors`": writes("convert --drop-others --to safetensors", "safetensors"),
    "`--shard-size`": writes("convert --drop-others --shard-size 1B", "set"),
    "`--to npz` `--to npy`": writes("convert --drop-others --to npz", "npz") + writes("convert --drop-others --to npy", "npy"),
    "`merge`": writes("merge", "zip"),
    "`split` `reshard`": writes("split --ranks 2", "DCP") + writes("reshard --ranks 2", "DCP"),
    "`split --to safetensors`": writes("split --ranks 2 --to safetensors --drop-others", "parts"),
    "`repair`": writes("repair --if-present", "edit"),
    "`reindex`": writes("reindex", "edit"),
    "`latest`": [(["latest", "."], None)],
    "`broadcast`": writes("broadcast --transport self"),
}


# Others look for leaks, which takes a third of the time of a short command.
ENVIRONMENT = dict(os.environ, LC_ALL="C", ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


def run(words, folder):
    done = subprocess.run([CKPT, *words], cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def format_of(path, folder):
    code, out, _ = run(["info", "--json", path], folder)
    return json.loads(out)["file"]["format"] if code == 0 else None


def snapshot(folder):
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb") as file:
                found[os.path.join(parent, name)] = file.read()
    return found


def written(form, path, source, folder, was):
    """The word for what is at PATH, made of SOURCE, which is of the format WAS, or what is wrong with it."""
    if form == "npz":
        with open(os.path.join(folder, path), "rb") as file:
            return "yes" if file.read(2) == b"PK" else "not an archive"
    if form == "npy":
        return "yes" if any(name.endswith(".npy") for name in os.listdir(os.path.join(folder, path))) else "no .npy files"
    found = format_of(path, folder)
    if form == "moved" and '"device":"cuda:0"' not in run(["ls", "--json", path], folder)[1]:
        return "no effect"
    if form in ("edit", "moved"):
        known = {name: word for word, name in FORMATS.items() if name}
        same = found == was and os.path.isdir(os.path.join(folder, path)) == os.path.isdir(os.path.join(folder, source))
        return "same" if same else known.get(found, found)
    if form == "set" and found == "safetensors":    # of one tensor there is one file
        return "yes"
    return "yes" if form is None or found == FORMATS[form] else "it wrote " + str(found)


def trial(words, form, made):
    """The word for a cell, and what the command says."""
    source, was, path, tensor, *part = made
    with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR")) as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        before = snapshot(folder)
        out = "OUT" + ".safetensors" * (words[0] == "repair" and path.endswith(".safetensors"))     # written as IN is
        named = {"IN": path, "OUT": out, "NAME": tensor or "x", "PART": (part or [tensor])[0] or "x"}
        code, text, err = run([named.get(word, word) for word in words], folder)
        said = (err or text).strip()
        if "-i" in words:
            return (written(form, path, path, folder, was) if code == 0 else "no"), said
        after = snapshot(folder)
        if {name: after.get(name) for name in before} != before:
            return "the input changed", said
        if code == 0:
            return (written(form, out, path, folder, was) if "OUT" in words else "yes"), said
        if after != before:
            return "an error that leaves something behind", said
        if words[0] == "verify" and code == 2 and ": cannot tell: " in text:
            return "no checksums", said
        if words[0] == "scan" and code == 2 and ": unreadable: " in text:
            return "no", said
        if not re.match(r"ckpt: \S", err) or "Sanitizer" in err:
            return "exit code %d and no clear error" % code, said
        return "no", said


def rows(lines):
    """(number of the line, cells) of every row of every table with a column of COLUMNS."""
    columns = None
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells is None:
            columns = None
        elif columns is None:
            columns = cells if set(cells) & set(COLUMNS) else []
            if columns and set(columns[1:]) - set(COLUMNS):
                sys.exit("no test for the columns %s" % (set(columns[1:]) - set(COLUMNS)))
        elif columns and not set("".join(cells)) <= set("- :"):
            yield number, columns, cells


def main():
    with open(PAGE, encoding="utf-8") as file:
        lines = file.read().split("\n")
    table = list(rows(lines))
    wrong = ["the page has no column %s" % name for name in set(COLUMNS) - {c for _, columns, _ in table for c in columns}]
    wrong += ["the page has no row %s" % name for name in set(inputs.FORMATS) - {cells[0] for _, _, cells in table}]
    wrong += ["no input is made for the row %s" % cells[0] for _, _, cells in table if cells[0] not in inputs.FORMATS]
    if wrong:
        sys.exit("\n".join(sorted(set(wrong))))
    if os.environ.get("CKPT_TEST_DIR"):
        os.makedirs(os.environ["CKPT_TEST_DIR"], exist_ok=True)
    tried = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("CKPT_TEST_DIR")) as root, concurrent.futures.ThreadPoolExecutor(4) as pool:
        made = {}
        for count, (name, make) in enumerate(inputs.FORMATS.items()):
            folder = os.path.join(root, str(count))
            os.mkdir(folder)
            about = make(folder)
            made[name] = (folder, format_of(about[0], folder), *about)
        trials = {(number, column, " ".join(words)): pool.submit(trial, words, form, made[cells[0]])
                  for number, columns, cells in table for column in columns[1:] for words, form in COLUMNS[column]}
        for number, columns, cells in table:
            for at, column in enumerate(columns[1:], 1):
                for words, _ in COLUMNS[column]:
                    tried += 1
                    word, said = trials[number, column, " ".join(words)].result()
                    if word != cells[at]:
                        wrong.append("%s, %s: the page says %r, ckpt %s says %r:\n  %s" % (
                            cells[0], column, cells[at], " ".join(words), word, said[:400]))
                        cells[at] = word
            lines[number] = "| " + " | ".join(cells) + " |"
    if "--print" in sys.argv[1:]:
        print("\n".join(lines))
    elif wrong:
        sys.exit("\n".join(wrong))
    else:
        print("%d commands, %d rows: all cells are true" % (tried, len(table)))


main()
