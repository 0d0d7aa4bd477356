# SPDX-License-Identifier: Apache-2.0
"""Directories of torch.distributed.checkpoint: what ckpt merges, splits, reshards and renames, judged by real torch.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/dcp.py [OPTIONS]

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. Every torch from 2.6 on saves the states of dcp_states.py with one
to four processes, torch 1.13 what it could do by then (dcp_save_old.py); others are left out. Merged, they have to be
what dcp_to_torch_save makes of them; what ckpt splits and reshards is loaded by every torch in one, two and three
processes, and converted back. Ends with 77 if there is no such torch.
"""

import argparse
import filecmp
import json
import math
import os
import pickletools
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import run  # noqa: E402

PARTS = ("list", "merge", "split", "reshard", "edit", "reindex", "old")
WORLDS = (1, 2, 3) if os.environ.get("CKPT_TEST_LONG") == "1" else (1, 3)
RANKS = (1, 2, 3, 8)
MANY = 64
SECONDS = 60
OLDEST = (2, 6)
BEFORE = (1, 13)    # the only one that had DCP elsewhere
NEW_DTYPES = ("dtypes_new",)    # not known to every torch
ITEM_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}

RESHARD = ("nested", "scalars", "layouts", "flags", "values", "tied", "names", "big", "threads", "uneven_2", "uneven_3",
           "uneven_4", "trainer_4", "columns_3", "dtypes_4", "transposed_2", "grid_4", "twice_4", "strided_4", "big_4",
           "sharded_2", "sharded_3", "fsdp_2")
SPLIT_MERGED = ("nested", "uneven_3", "big_4", "fsdp_2")    # the plain files are split all

# operation: (directory, command, what torch saved under the new names, or a file beside the directory)
EDITS = {
    "strip-module": ("keys_module_2", ["strip-module"], "keys_2.torch.pt"),
    "strip-prefix": ("keys_module_2", ["strip-prefix", "module."], "keys_2.torch.pt"),
    "add-prefix": ("keys_2", ["add-prefix", "module."], "keys_module_2.torch.pt"),
    "anywhere": ("keys_compiled_2", ["strip-prefix", "--anywhere", "_orig_mod."], "keys_2.torch.pt"),
    "rename": ("keys_2", ["rename", "-e", r"s/^0\./first./"], "keys_renamed_2.torch.pt"),
    "strip-in-trainer": ("trainer_module_2", ["strip-module"], "trainer_2.torch.pt"),
    "strip-at": ("trainer_module_2", ["strip-module", "--at", "model"], "trainer_2.torch.pt"),
    "select": ("trainer_2", ["select", "--drop", "optimizer"], "trainer_2.drop.pt"),
    "keep": ("trainer_2", ["select", "--keep", "model"], "trainer_2.only.pt"),
    "extract": ("trainer_2", ["extract", "model"], "trainer_2.extract.pt"),
}

# all that an index for every torch from 2.0 on may name
PORTABLE = {"torch.distributed.checkpoint.metadata " + name for name in (
    "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex")} | {
    "torch.distributed.checkpoint.filesystem _StorageInfo", "torch Size", "torch strided",
    "torch.serialization _get_layout", "torch.distributed._shard.sharded_tensor.metadata TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata MEM_FORMAT_ENCODING"}


class Torch(run.Torch):
    """One interpreter; its directories are in self.folder, what ckpt makes of them in folders beside it."""

    def save(self, only):
        printed = self.run("dcp_save.py", self.folder, *only)
        try:
            with open(self.folder + "/manifest.json", encoding="utf-8") as stream:
                self.manifest = json.load(stream)
        except OSError:
            raise SystemExit("dcp_save.py failed with torch %s:\n%s" % (self.version, printed[-2000:]))

    def directory(self, name):
        return "%s/%s" % (self.folder, name)

    def reference(self, name):
        return "%s/%s.torch.pt" % (self.folder, name)

    def made(self, part, name):
        path = "%s.%s/%s" % (self.folder, part, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def states(self):
        return self.manifest["states"].items()

    def listed(self, script, lines, *arguments):
        """Run a script that reads a list; returns {second field: text}, empty texts for what is fine."""
        listing, result = self.folder + "/list.txt", self.folder + "/result.txt"
        with open(listing, "w", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
        if os.path.exists(result):
            os.unlink(result)
        printed = self.run(script, *arguments, listing, result)
        return printed, result


class Checks:
    """What is to be judged by torch later on: all at once, since a torch takes seconds to start."""

    def __init__(self):
        self.equal = {}     # found: (case, wanted, torches that have to agree)
        self.loads = {}     # directory: (case, reference, number of ranks that it is for)
        self.indexes = []   # (case, directory, function of the index that returns a text)

    def add_equal(self, case, wanted, found, torches):
        self.equal[found] = (case, wanted, torches)

    def add_load(self, case, directory, reference, ranks=0):
        self.loads[directory] = (case, reference, ranks)


def ckpt(*arguments):
    """Run ckpt; returns what is wrong, an empty text if nothing is."""
    done = subprocess.run([os.environ["CKPT"], *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", errors="replace", timeout=SECONDS)
    if done.returncode:
        return "ckpt %s: exit status %d: %s" % (arguments[0], done.returncode, done.stderr.strip()[:300])
    return ""


def refusal(*arguments):
    """ckpt may do it or refuse it in proper form; what is wrong, or an empty text."""
    done = subprocess.run([os.environ["CKPT"], *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", errors="replace", timeout=SECONDS)
    if done.returncode == 0:
        return ""
    if done.returncode == 2 and re.match(r"ckpt: [^\n]+(\nhint: [^\n]+)?\n\Z", done.stderr):
        return ""
    return "exit status %d: %s" % (done.returncode, done.stderr.strip()[:300])


# ---- list ----

def check_listing(name, torch, checks, report):
    """ckpt ls --json has the tensors that torch finds in the index; others are only inside of values."""
    directory = torch.directory(name)
    case = run.Case(torch.version, name, "list")
    done = subprocess.run([os.environ["CKPT"], "ls", "--json", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", timeout=SECONDS)
    if done.returncode not in (0, 1):
        return report.add(case, "exit status %d: %s" % (done.returncode, done.stderr.strip()[:300]))
    keys = torch.manifest["states"][name]["keys"]
    values = tuple(key + "." for key, dtype, _ in keys if dtype is None)
    found = [[row["name"], row["dtype"], row["shape"]] for row in json.loads(done.stdout)["tensors"]]
    wanted = [row for row in keys if row[1]]
    missing = [row for row in wanted if row not in found]
    spare = [row for row in found if row not in wanted and not row[0].startswith(values)]
    report.add(case, "ckpt lacks %s, and has %s" % (missing[:3], spare[:3]) if missing or spare else "")
    for command in (["info", directory], ["dis", directory], ["verify", directory]):
        report.add(run.Case(torch.version, name, command[0]), ckpt(*command))


def check_list(torch, torches, checks, report):
    for name, facts in torch.states():
        if facts["keys"] is not None:
            check_listing(name, torch, checks, report)


# ---- merge ----

def profile_option(torch):
    """The option that makes ckpt write as this torch does; none if merge has no such option."""
    done = subprocess.run([os.environ["CKPT"], "help", "merge"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          encoding="utf-8")
    return ["--profile", torch.version] if "--profile" in done.stdout else []


def merge(torch, torches, name, wanted, operation, checks, report, *options):
    case = run.Case(torch.version, name, operation)
    output, source, text = torch.made(operation, os.path.basename(wanted)), torch.directory(name), ""
    if torch.manifest["states"][name]["keys"] is None:      # indexes of ranks
        source = torch.made("ranks", name)
        text = ckpt("reindex", torch.directory(name), source)
    text = text or ckpt("merge", *profile_option(torch), *options, source, output)
    report.add(case, text)
    if not text:
        torch.same_bytes[operation, name] = filecmp.cmp(wanted, output, shallow=False)
        checks.add_equal(case, wanted, output, [torch] if torch.numbers >= OLDEST else torches)


def check_merge(torch, torches, checks, report):
    for name, facts in torch.states():
        if not facts["reference"]:
            text = refusal("merge", torch.directory(name), torch.made("merge", name))
            report.add(run.Case(torch.version, name, "merge"), text)
            continue
        merge(torch, torches, name, torch.reference(name), "merge", checks, report)
        if facts["parts"]:
            base = torch.directory(name)
            merge(torch, torches, name, base + ".int.pt", "merge-int-keys", checks, report, "--int-keys")
            merge(torch, torches, name, base + ".only.pt", "merge-only", checks, report, "--only", "model")


# ---- split and reshard ----

def item_size(dtype):
    if dtype == "bool":
        return 1
    size = ITEM_SIZES[re.search(r"(8|16|32|64|128)(?!\d)", dtype).group(1)] if "float8" not in dtype else 1
    return size


def wanted_boxes(size, ranks, dimension):
    """{file: (offset, extent)} by the rule of torch.chunk."""
    extent = math.ceil(size[dimension] / ranks)
    boxes = {}
    for rank in range(ranks):
        first, end = min(size[dimension], rank * extent), min(size[dimension], (rank + 1) * extent)
        if end > first:
            boxes["__%d_0.distcp" % rank] = (first, end - first)
    return boxes


def check_chunks(key, dtype, size, chunks, ranks, dimension, keep):
    count = math.prod(size)
    if not count:
        return "" if not chunks else "%s: no elements, but chunks" % key
    if not size or count * item_size(dtype) < keep:
        whole = [chunk[:2] for chunk in chunks] == [[[0] * len(size), size]]
        return "" if whole else "%s: not in one chunk, but in %s" % (key, chunks)
    dimension = min(dimension, len(size) - 1)
    wanted = wanted_boxes(size, ranks, dimension)
    found = {chunk[2]: (chunk[0][dimension], chunk[1][dimension]) for chunk in chunks}
    if found != wanted or len(chunks) != len(wanted):
        return "%s: chunks %s, not %s" % (key, found, wanted)
    return ""


def check_index(index, ranks, dimension=0, keep=0):
    """Rank r's blocks are in its own file, and cover every tensor; what is wrong, or an empty text."""
    if "error" in index:
        return index["error"]
    files = {"__%d_0.distcp" % rank for rank in range(ranks)}
    for key, dtype, size in index["keys"]:
        if key not in index["paths"]:
            return "%s has no path in planner_data" % key
        if dtype is None:
            if index["values"][key][0] != "__0_0.distcp":
                return "%s: a value in %s" % (key, index["values"][key][0])
            continue
        text = check_chunks(key, dtype, size, index["chunks"][key], ranks, dimension, keep)
        if text:
            return text
        if not {chunk[2] for chunk in index["chunks"][key]} <= files:
            return "%s: in other files than %s" % (key, sorted(files))
    return ""


def tied_are_aliases(index):
    """The tensors that are one in the source are one item in the directory."""
    items = [[chunk[2:] for chunk in index["chunks"][key]] for key in ("a", "b", "again.a")]
    return "" if items.count(items[0]) == len(items) else "tied tensors have items %s" % items


def add_directory(torch, torches, case, directory, reference, ranks, checks, dimension=0, keep=0):
    """Everything that is judged of a directory that ckpt wrote."""
    readers = torches
    if case.object in NEW_DTYPES:
        readers = [one for one in torches if one.numbers >= (2, 9)]
    own = [torch] if torch in torches else torches
    checks.add_load(case, directory, reference, ranks if dimension == 0 else 0)
    checks.add_equal(case, reference, directory, readers if ranks == 2 else own)
    checks.indexes.append((case, directory, lambda index: check_index(index, ranks, dimension, keep)))


def split(torch, torches, name, source, reference, checks, report, ranks, *options):
    operation = "split-%d%s" % (ranks, "".join(options))
    case = run.Case(torch.version, name, operation)
    directory = torch.made("split", "%s.%d%s" % (name, ranks, "".join(options)))
    text = ckpt("split", source, directory, "--ranks", str(ranks), *options) or ckpt("verify", directory)
    report.add(case, text)
    if text:
        return
    chosen = dict(zip(options[::2], map(int, options[1::2])))
    add_directory(torch, torches, case, directory, reference, ranks, checks, chosen.get("--dim", 0),
                  chosen.get("--keep-whole", 0))
    if name.endswith("tied"):
        checks.indexes.append((case, directory, tied_are_aliases))
    check_merged_again(torch, name, directory, reference, "merge-" + operation, checks, report)


def check_merged_again(torch, name, directory, reference, operation, checks, report):
    """Split, or reshard, and then merge is the identity."""
    again = torch.made("again", "%s.%s.pt" % (name.replace("/", "-"), operation))
    case = run.Case(torch.version, name, operation)
    text = ckpt("merge", directory, again)
    report.add(case, text)
    if not text:
        checks.add_equal(case, reference, again, [torch])


def check_split(torch, torches, checks, report):
    for name, error in torch.manifest["plain"].items():
        plain = "%s/plain/%s" % (torch.folder, name)
        for ranks in RANKS if not error else ():
            split(torch, torches, "plain/" + name, plain + ".pt", plain + ".torch.pt", checks, report, ranks)
    if "big" in torch.manifest["plain"]:
        plain = "%s/plain/big" % torch.folder
        split(torch, torches, "plain/big", plain + ".pt", plain + ".torch.pt", checks, report, MANY)
        for options in (("--dim", "1"), ("--keep-whole", "65536"), ("--alignment", "4096")):
            split(torch, torches, "plain/big", plain + ".pt", plain + ".torch.pt", checks, report, 3, *options)
    for name in SPLIT_MERGED:
        if name in torch.manifest["states"]:
            for ranks in (2, 3):
                split(torch, torches, name, torch.reference(name), torch.reference(name), checks, report, ranks)


def check_reshard(torch, torches, checks, report):
    for name in RESHARD:
        for ranks in RANKS if name in torch.manifest["states"] else ():
            case = run.Case(torch.version, name, "reshard-%d" % ranks)
            directory = torch.made("reshard", "%s.%d" % (name, ranks))
            text = ckpt("reshard", torch.directory(name), directory, "--ranks", str(ranks)) or ckpt("verify", directory)
            report.add(case, text)
            if not text:
                add_directory(torch, torches, case, directory, torch.reference(name), ranks, checks)


# ---- edits of the index ----

def data_files(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".distcp"))


def same_data(source, target, linked):
    """The data files of TARGET are those of SOURCE; what is wrong, or an empty text."""
    for name in data_files(target):
        one, other = os.path.join(source, name), os.path.join(target, name)
        if not os.path.exists(one):
            return "%s is new" % name
        if os.path.samefile(one, other) != linked:
            return "%s is %s" % (name, "not linked" if linked else "linked")
        if not filecmp.cmp(one, other, shallow=False):
            return "%s has changed" % name
    return ""


def edit(torch, torches, operation, name, command, wanted, checks, report):
    source, reference = torch.directory(name), "%s/%s" % (torch.folder, wanted)
    kinds = {"": [], "-link": ["--hard-link"], "-in-place": ["-i"]}
    for kind, options in kinds.items():
        case = run.Case(torch.version, name, operation + kind)
        target = torch.made("edit", operation + kind)
        if kind == "-in-place":
            shutil.copytree(source, target)
            before = {file: os.stat(os.path.join(target, file)).st_ino for file in data_files(target)}
            text = ckpt(command[0], *options, *command[1:], target)
            after = {file: os.stat(os.path.join(target, file)).st_ino for file in data_files(target)}
            text = text or ("" if before == after else "the data files are others")
        else:
            text = ckpt(command[0], *options, *command[1:], source, target)
        text = text or same_data(source, target, kind == "-link") or ckpt("verify", target)
        report.add(case, text)
        if not text:
            checks.add_equal(case, reference, target, torches)
            checks.add_load(case, target, reference)


def check_edit(torch, torches, checks, report):
    for operation, (name, command, wanted) in EDITS.items():
        if name in torch.manifest["states"] and os.path.exists("%s/%s" % (torch.folder, wanted)):
            edit(torch, torches, operation, name, command, wanted, checks, report)


# ---- new indexes ----

def globals_of(path):
    """All globals that a pickle names, by its opcodes alone."""
    found, texts, memo = set(), [], {}
    with open(path, "rb") as stream:
        for code, value, _ in pickletools.genops(stream.read()):
            if code.name == "GLOBAL":
                found.add(value)
            elif code.name == "STACK_GLOBAL":
                found.add(" ".join(texts[-2:]))
            elif "UNICODE" in code.name:
                texts.append(value)
            elif code.name == "MEMOIZE":
                memo[len(memo)] = texts[-1] if texts else ""
            elif code.name in ("BINPUT", "LONG_BINPUT"):
                memo[value] = texts[-1] if texts else ""
            elif code.name in ("BINGET", "LONG_BINGET"):
                texts.append(memo[value])
    return found


def not_portable(directory):
    """Names that an old torch does not know; what is wrong, or an empty text."""
    names = {name for name in globals_of(os.path.join(directory, ".metadata"))
             if name not in PORTABLE and not re.fullmatch(r"torch \w+", name)}
    return "the index names %s" % sorted(names) if names else ""


def reindex(torch, torches, name, operation, options, checks, report):
    case = run.Case(torch.version, name, operation)
    source, target = torch.directory(name), torch.made(operation, name)
    if "-i" in options:
        shutil.copytree(source, target)
        text = ckpt("reindex", *options, target)
    else:
        text = ckpt("reindex", *options, source, target)
    text = text or not_portable(target) or ckpt("verify", target)
    report.add(case, text)
    if not text:
        readers = [one for one in torches if name not in NEW_DTYPES or one.numbers >= (2, 9)]
        checks.add_equal(case, torch.reference(name), target, readers)
        checks.add_load(case, target, torch.reference(name))


def check_reindex(torch, torches, checks, report):
    for name, facts in torch.states():
        if facts["reference"]:
            reindex(torch, torches, name, "reindex", [], checks, report)
    for name in ("uneven_3", "rank_local_2", "rank_local_3", "rank_local_1"):
        if name in torch.manifest["states"]:
            reindex(torch, torches, name, "reindex-in-place", ["-i"], checks, report)
            reindex(torch, torches, name, "reindex-for-2.2", ["--for-torch", "2.2"], checks, report)
    check_promoted(torch, torches, checks, report)


def check_promoted(torch, torches, checks, report):
    """A save that was stopped between the unlinking of the old index and the renaming of the new one."""
    if "uneven_2" not in torch.manifest["states"]:
        return
    case = run.Case(torch.version, "uneven_2", "promote")
    target = torch.made("promote", "uneven_2")
    shutil.copytree(torch.directory("uneven_2"), target)
    os.rename(target + "/.metadata", target + "/.metadata.tmp")
    text = ckpt("reindex", "-i", target)
    report.add(case, text)
    if not text:
        checks.add_equal(case, torch.reference("uneven_2"), target, torches)


# ---- torch 1.13 ----

def check_old(torch, torches, checks, report):
    """Its directories, which no other torch loads: merged, and made fit for the others."""
    printed = torch.run("dcp_save_old.py", torch.folder)
    directory, reference = torch.directory("old"), torch.reference("old")
    if not os.path.exists(reference):
        return report.add(run.Case(torch.version, "old", "save"), printed[-500:])
    torch.manifest = {"states": {"old": {"keys": []}}}
    merge(torch, torches, "old", reference, "merge", checks, report)
    reindex(torch, torches, "old", "reindex", [], checks, report)
    for ranks in (1, 3):
        case, target = run.Case(torch.version, "old", "reshard-%d" % ranks), torch.made("reshard", "old.%d" % ranks)
        text = ckpt("reshard", directory, target, "--ranks", str(ranks))
        report.add(case, text)
        if not text:
            add_directory(torch, torches, case, target, reference, ranks, checks)


# ---- torch judges ----

def read_results(torch, printed, path, cases, report, what):
    """Lines of KIND, FOUND, TEXT; every case has to be there."""
    seen, done = set(), False
    try:
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                kind, found, text = line.rstrip("\n").split("\t", 2)
                done = done or kind == "done"
                if kind != "done":
                    seen.add(found)
                    report.add(cases[found], "" if kind == "ok" else "%s torch %s: %s" % (what, torch.version, text))
    except OSError:
        pass
    if not done:
        missing = next((cases[found] for found in cases if found not in seen), None)
        report.add(missing or run.Case(torch.version, "-", what), "%s torch %s stopped: %s" % (
            what, torch.version, printed[-500:]))


def judge_equal(torch, checks, report):
    cases = {found: case for found, (case, _, readers) in checks.equal.items() if torch in readers}
    if cases:
        printed, result = torch.listed("dcp_compare.py", ["%s\t%s" % (checks.equal[found][1], found) for found in cases])
        read_results(torch, printed, result, cases, report, "compared by")


def judge_loads(torch, checks, report):
    cases = {directory: case for directory, (case, _, _) in checks.loads.items()
             if torch.numbers >= (2, 9) or case.object not in NEW_DTYPES}
    lines = ["%s\t%s\t%d" % (directory, *checks.loads[directory][1:]) for directory in cases]
    for world in WORLDS if lines else ():
        printed, result = torch.listed("dcp_load.py", lines, str(world))
        read_results(torch, printed, result, cases, report, "loaded by %d processes of" % world)


def judge_indexes(torch, checks, report):
    """One torch reads the indexes, the rules are applied here."""
    if not checks.indexes:
        return
    printed, result = torch.listed("dcp_index.py", sorted({directory for _, directory, _ in checks.indexes}))
    try:
        with open(result, encoding="utf-8") as stream:
            indexes = json.load(stream)
    except OSError:
        return report.add(run.Case(torch.version, "-", "indexes"), printed[-500:])
    for case, directory, check in checks.indexes:
        index = indexes[directory]
        report.add(case, index["error"] if "error" in index else check(index))


def judge(torches, checks, report):
    def all_of_one(torch):
        judge_equal(torch, checks, report)
        judge_loads(torch, checks, report)
    run.in_parallel(all_of_one, torches)
    judge_indexes(max(torches, key=lambda torch: torch.numbers), checks, report)


# ---- all ----

class NoExceptions:
    def reason(self, case):
        return None


def make(torch, torches, options, checks, report):
    """Let one torch save, and ckpt work on it."""
    torch.same_bytes = {}
    if torch.numbers == BEFORE:
        return check_old(torch, torches, checks, report)
    torch.save(options.only)
    for name, text in torch.manifest["errors"].items():
        report.add(run.Case(torch.version, name, "save"), text)
    for name, text in torch.manifest["plain"].items():
        if text:
            report.add(run.Case(torch.version, "plain/" + name, "save"), text)
    report.skip(len(torch.manifest["skipped"]))
    for part in options.part or PARTS:
        if part != "old":
            globals()["check_" + part](torch, torches, checks, report)


def check_all(options):
    commands = [part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip()]
    torches = [Torch(number, command) for number, command in enumerate(commands)]
    old = [torch for torch in torches if torch.numbers == BEFORE and not options.only and "old" in (options.part or PARTS)]
    torches = [torch for torch in torches if torch.numbers >= OLDEST]
    if not torches:
        print("skipped: no torch from 2.6 on in CKPT_PYTHON")
        return 77
    report, checks = run.Report(), Checks()
    run.in_parallel(lambda torch: make(torch, torches, options, checks, report), torches + old)
    judge(torches, checks, report)
    for torch in torches + old:
        same = [name for name, equal in sorted(torch.same_bytes.items()) if equal]
        print("torch %s: %d of %d merged files are the very bytes of torch" % (
            torch.version, len(same), len(torch.same_bytes)))
        if options.verbose:
            for (operation, name), equal in sorted(torch.same_bytes.items()):
                print("  %s %s %s" % (operation, name, "same" if equal else "DIFFERENT BYTES"))
    return report.finish(NoExceptions())


def parse_options():
    parser = argparse.ArgumentParser(description="Distributed checkpoints, judged by real torch.")
    parser.add_argument("--only", metavar="STATE", action="append", default=[], help="one state; may be repeated")
    parser.add_argument("--part", metavar="PART", action="append", choices=PARTS, help="one of %s" % ", ".join(PARTS))
    parser.add_argument("--keep", action="store_true", help="leave the work folder behind")
    parser.add_argument("--verbose", action="store_true", help="say which merged files have torch's bytes")
    return parser.parse_args()


def main():
    options = parse_options()
    for variable, what in (("CKPT_PYTHON", "no torch"), ("CKPT", "no ckpt")):
        if not os.environ.get(variable):
            print("skipped: %s is not set, so there is %s to test with" % (variable, what))
            return 77
    os.environ["CKPT"] = shutil.which(os.environ["CKPT"]) or os.path.abspath(os.environ["CKPT"])
    folder = run.make_work_folder()
    os.chdir(folder)
    try:
        return check_all(options)
    finally:
        os.chdir(run.HERE)
        if options.keep:
            print("files are in %s" % folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
