# SPDX-License-Identifier: Apache-2.0
"""What the tests with real torch share: each torch of CKPT_PYTHON, in a folder of its own with a copy of these scripts."""
import contextlib
import glob
import os
import shutil
import sys
import tempfile

# Of many cases of one kind, for each of which a process is started, every STEPth is tried: all of them with sanitizers would take a
# quarter of an hour.
STEP = 7 if os.environ.get("CKPT_SANITIZED") == "1" else 1 if os.environ.get("CKPT_TEST_LONG") == "1" else 4

# A python prints which torch it has, without the second or two that an import of it takes.
ASK_VERSION = """import importlib.util, runpy
folder = importlib.util.find_spec("torch").submodule_search_locations[0]
print("torch version", runpy.run_path(folder + "/version.py")["__version__"])"""

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


def has_none():
    """True, and it is said: there is no torch to compare with."""
    if os.environ.get("CKPT") and os.environ.get("CKPT_PYTHON"):
        return False
    print("skipped: CKPT or CKPT_PYTHON is not set, no real torch to compare with")
    return True


def commands_of(arguments):
    """All torches, or with "even" and "odd" half of them: two tests run side by side then."""
    commands = os.environ["CKPT_PYTHON"].split(";")
    halves = {"even": commands[0::2], "odd": commands[1::2]}
    return halves[arguments[0]] if arguments else commands


@contextlib.contextmanager
def folder(name):
    """A new one, with a copy of these scripts."""
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=name + "-", dir=base) as work:
        os.chmod(work, 0o755)
        for script in glob.glob(os.path.join(HERE, "*.py")):
            shutil.copy(script, work)
        yield work


def tell(passed, failed):
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


def run(name, check, optional=False):
    """
    check(ckpt, command, work) -> how many things are right, [what is wrong]; COMMAND runs python with that torch. Returns the exit
    status: skipped where there is no torch, failed where nothing was right. OPTIONAL: older torches cannot do it at all.
    """
    if has_none():
        return SKIPPED
    failed = passed = 0
    for command in commands_of(sys.argv[1:]):
        with folder(name) as work:
            right, wrong = check(os.path.abspath(os.environ["CKPT"]), command, work)
        passed += right
        failed += len(wrong)
        for text in wrong[:40]:
            print("FAIL %s: %s" % (command, text), flush=True)
    if not commands_of(sys.argv[1:]):
        print("skipped: CKPT_PYTHON names one torch, which another test has")
        return SKIPPED
    status = tell(passed, failed)
    return SKIPPED if optional and not passed and not failed else status


def run_together(name, check):
    """check(ckpt, commands, work), for what all torches have in one folder; else as run()."""
    if has_none():
        return SKIPPED
    with folder(name) as work:
        right, wrong = check(os.path.abspath(os.environ["CKPT"]), os.environ["CKPT_PYTHON"].split(";"), work)
    for text in wrong[-60:]:
        print("FAIL", text)
    return tell(right, len(wrong))


def main(name, check, optional=False):
    sys.exit(run(name, check, optional))
