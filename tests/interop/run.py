# SPDX-License-Identifier: Apache-2.0
"""Compare ckpt with real torch, byte for byte.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/run.py [OPTIONS]

CKPT_PYTHON is a list of commands, separated by `;`, that act like Python interpreters with torch and
see the current folder at least. Work goes on in a new folder below CKPT_TEST_DIR, or else the
current one. For every such torch the objects of objects.py are written (generate.py); ckpt
converts, strips and prefixes the files, which has to give what torch writes. Then every torch loads
everything that ckpt wrote, and compares it with what it loads from torch's file. Ends with 77 if
there is no torch.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True      # the scripts' folder stays as it is

import each_torch  # noqa: E402
import same_file  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROCESSES = 2
ODD_TORCH = "2.14"      # the odd files are converted to this generation's form
TIMEOUT = 600

MAY_PASS = "with some torches: "        # how the reason begins of an exception that depends on which torches load the file

Case = collections.namedtuple("Case", "torch object operation")


class Torch:
    """One interpreter of CKPT_PYTHON, and its generation of files in the work folder."""

    def __init__(self, number, command):
        self.command = shlex.split(command)
        self.folder = "torch%d" % number
        self.manifest = None
        text = self.run("-c", each_torch.ASK_VERSION)
        match = re.search(r"torch version (\d+)\.(\d+)", text)
        if not match:
            raise SystemExit("no torch in '%s':\n%s" % (command, text))
        self.numbers = tuple(int(part) for part in match.groups())
        self.version = "%d.%d" % self.numbers

    def run(self, *arguments):
        """The command's output, of both kinds."""
        done = subprocess.run(self.command + list(arguments), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                              timeout=TIMEOUT)
        return done.stdout

    def generate(self, only):
        text = self.run("generate.py", self.folder, *([only] if only else []))
        try:
            with open(os.path.join(self.folder, "manifest.json"), encoding="utf-8") as stream:
                self.manifest = json.load(stream)
        except OSError:
            raise SystemExit("generate.py failed with torch %s:\n%s" % (self.version, text))

    def path(self, part, name):
        return "%s/%s/%s.pt" % (self.folder, part, name)

    def difference(self, wanted, found):
        keys_are_addresses = self.numbers < (1, 9)
        try:
            if keys_are_addresses:
                return same_file.difference_but_for_keys(wanted, found)
            return same_file.difference(wanted, found)
        except Exception as error:
            return "not to be compared: %s: %s" % (type(error).__name__, error)


class Report:
    """What became of every case; an empty text is a pass."""

    def __init__(self):
        self.lock = threading.Lock()
        self.results = {}
        self.skipped = 0

    def add(self, case, text):
        """A case may be reported several times, as loads are; the first failure counts."""
        with self.lock:
            self.results[case] = self.results.get(case) or text

    def skip(self, count):
        with self.lock:
            self.skipped += count

    def finish(self, exceptions):
        """Print the failures and the totals; returns the exit status."""
        passed = failed = 0
        for case, text in sorted(self.results.items()):
            reason = exceptions.reason(case)
            if text and reason:
                self.skipped += 1
            elif text or (reason and not reason.startswith(MAY_PASS)):
                failed += 1
                text = text or "passes, but exceptions.txt says: " + reason
                print("FAIL torch %s, %s, %s: %s" % (case.torch, case.object, case.operation, text))
            else:
                passed += 1
        print("%d passed, %d failed, %d skipped" % (passed, failed, self.skipped))
        return 1 if failed or not passed else 0


class Exceptions:
    def __init__(self, path):
        self.entries = []
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                if line.strip() and not line.startswith("#"):
                    self.entries.append(line.split(None, 3))

    def reason_of_any(self, torch, kinds, operation):
        """Of a random object that has KINDS in it."""
        for pattern, name, known, reason in self.entries:
            if name.startswith("@") and name[1:] in kinds and fnmatch.fnmatchcase(torch, pattern) and fnmatch.fnmatchcase(operation, known):
                return reason.strip()
        return None

    def reason(self, case):
        for torch, name, operation, reason in self.entries:
            if fnmatch.fnmatchcase(case.torch, torch) and fnmatch.fnmatchcase(case.object, name) \
                    and fnmatch.fnmatchcase(case.operation, operation):
                return reason.strip()
        return None


def run_ckpt(arguments, output):
    """Run ckpt; returns its exit status and what it printed on stderr."""
    os.makedirs(os.path.dirname(output), exist_ok=True)
    done = subprocess.run([os.environ["CKPT"]] + arguments + [output], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace", timeout=60)
    return done.returncode, done.stderr.strip()


def check_written(torch, arguments, wanted, output):
    """ckpt has to write what stands in WANTED. Returns what is wrong, or an empty text."""
    status, message = run_ckpt(arguments, output)
    if status:
        return "exit status %d: %s" % (status, message)
    if not os.path.exists(output):
        return "exit status 0, but there is no output"
    return torch.difference(wanted, output)


def check_refused(arguments, output, wanted_status):
    status, message = run_ckpt(arguments, output)
    if status == 2 and "is one module, saved whole" in message and not os.path.exists(output):
        return ""  # its names are not looked at
    if status != wanted_status:
        return "exit status %d wanted, %d found: %s" % (wanted_status, status, message)
    return "an output was written" if os.path.exists(output) else ""


def check_object(torch, name, facts, report):
    """All commands on one object's files."""
    source = torch.path("a", name)

    def add(operation, text):
        report.add(Case(torch.version, name, operation), text)

    add("convert", check_written(torch, ["convert", source], torch.path("c", name),
                                 torch.path("b", name)))
    strip, stripped = ["strip-module", source], torch.path("bs", name)
    if facts["strip"] == "done":
        add("strip-module", check_written(torch, strip, torch.path("s", name), stripped))
    else:
        status = {"nothing": 1, "clash": 2}[facts["strip"]]
        add("strip-module", check_refused(strip, stripped, status))
    if facts["add"] == "done":
        # add-module refuses to add a second one, add-prefix does not
        command = ["add-prefix", "module."] if facts["strip"] == "done" else ["add-module"]
        add("add-module", check_written(torch, command + [source], torch.path("add", name),
                                        torch.path("badd", name)))
    for edit, command in facts["edits"].items():
        if command != "none":
            add(edit, check_written(torch, command + [source], torch.path(edit, name),
                                    torch.path("b" + edit, name)))
    for variant in facts["odd"] if torch.version == ODD_TORCH else []:
        convert = ["convert", "--profile", ODD_TORCH, torch.path("o/" + variant, name)]
        add("odd-" + variant, check_written(torch, convert, torch.path("c", name),
                                            torch.path("bo/" + variant, name)))


def check_generation(torch, only, report):
    """Write the files of one torch, and all that ckpt makes of them."""
    torch.generate(only)
    manifest = torch.manifest
    for name, text in manifest["errors"].items():
        report.add(Case(torch.version, name, "generate"), text)
    report.skip(len(manifest["skipped"]))
    for name, facts in manifest["objects"].items():
        check_object(torch, name, facts, report)


LOADS = (("convert", "c", "b"), ("strip-module", "s", "bs"), ("add-module", "add", "badd"))


def pairs_to_load(torches):
    """{output: (case, reference)} for all files that ckpt wrote."""
    pairs = {}
    for torch in torches:
        for name in torch.manifest["objects"]:
            for operation, wanted, found in LOADS:
                output = torch.path(found, name)
                if os.path.exists(output) and os.path.exists(torch.path(wanted, name)):
                    case = Case(torch.version, name, "load-" + operation)
                    pairs[output] = (case, torch.path(wanted, name))
    return pairs


def check_loads(loader, pairs, report):
    """Let one torch load all outputs beside their references."""
    listing, result = loader.folder + "/pairs.txt", loader.folder + "/loads.txt"
    with open(listing, "w", encoding="utf-8") as stream:
        stream.writelines("%s\t%s\n" % (pairs[output][1], output) for output in pairs)
    printed = loader.run("check_load.py", listing, result)
    done, last = False, None
    with open(result, encoding="utf-8") as stream:
        for line in stream:
            kind, *fields = line.rstrip("\n").split("\t")
            done = kind == "done"
            if kind == "at":
                last = fields[0]
                report.add(pairs[last][0], "")
            elif kind == "bad":
                report.add(pairs[fields[0]][0], "in torch %s, %s: %s" % (
                    loader.version, fields[1], fields[2]))
    if not done:
        report.add(pairs[last][0] if last else Case(loader.version, "-", "load"),
                   "torch %s stopped here: %s" % (loader.version, printed[-500:]))


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        for _ in pool.map(function, items):
            pass


def chosen(options):
    """Every Nth object, or a part of these, as generate.py wants it."""
    number, parts = map(int, options.part.split("/"))
    return "every:%d:%d" % (options.every * parts, options.every * (number - 1))


def check_all(options):
    """Everything, in the work folder, which is the current one."""
    commands = [part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip()]
    if options.torch == "last":
        commands, options.torch = commands[-1:], None
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        torches = list(pool.map(Torch, range(len(commands)), commands))
    if options.torch:
        torches = [torch for torch in torches if torch.version == options.torch]
    report = Report()
    in_parallel(lambda torch: check_generation(torch, options.only or chosen(options), report), torches)
    pairs = pairs_to_load(torches)
    in_parallel(lambda torch: check_loads(torch, pairs, report), torches)
    return report.finish(Exceptions(os.path.join(HERE, "exceptions.txt")))


def make_work_folder():
    base = os.environ.get("CKPT_TEST_DIR") or os.getcwd()
    os.makedirs(base, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="interop-", dir=base)
    os.chmod(folder, 0o755)
    for name in os.listdir(HERE):
        if name.endswith(".py"):
            shutil.copy(os.path.join(HERE, name), folder)
    return folder


def parse_options():
    parser = argparse.ArgumentParser(description="Compare ckpt with real torch, byte for byte.")
    parser.add_argument("--only", metavar="NAME", help="one object")
    parser.add_argument("--every", metavar="N", type=int, default=1 if os.environ.get("CKPT_TEST_LONG") == "1" else 3,
                        help="of the objects every Nth (3, in a long run all)")
    parser.add_argument("--part", metavar="K/P", default="1/1", help="of these the Kth of P parts")
    parser.add_argument("--torch", metavar="VERSION", help="one torch, such as 2.14, or 'last': the last of CKPT_PYTHON")
    parser.add_argument("--keep", action="store_true", help="leave the work folder behind")
    return parser.parse_args()


def main():
    options = parse_options()
    for variable, what in (("CKPT_PYTHON", "no torch"), ("CKPT", "no ckpt")):
        if not os.environ.get(variable):
            print("skipped: %s is not set, so there is %s to test with" % (variable, what))
            return 77
    os.environ["CKPT"] = shutil.which(os.environ["CKPT"]) or os.path.abspath(os.environ["CKPT"])
    folder = make_work_folder()
    os.chdir(folder)
    try:
        return check_all(options)
    finally:
        os.chdir(HERE)
        if options.keep:
            print("files are in %s" % folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
