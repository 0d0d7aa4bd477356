# SPDX-License-Identifier: Apache-2.0
"""Random states through torch.distributed.checkpoint: what ckpt lists, merges, splits and reshards, judged by real torch.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/random_dcp.py [COUNT [SEED]] [--torch VERSION] [--keep]

As dcp.py, with COUNT states of random_states.py from SEED on, of one to four processes, for each torch from 2.6 on. A state that torch itself cannot save, or
not read back, may be refused. CKPT_TEST_LONG=1: more states. Ends with 77 if there is no such torch.
"""
import argparse
import os
import random
import shutil
import sys

import dcp
import each_torch
import run

SEED, COUNT, LONG_COUNT = 5000, 25, 1000
PART = 50           # so many states are judged at once
MOST_UNDONE = .25
NO_TARGET = "duplicated flatten key"     # 0 and "0" are one after a load, and torch cannot flatten that again
HOLE = "is an empty dict in a list, which a DCP directory cannot hold"


def split(torch, torches, name, r, checks, report):
    plain = "%s/plain/%s" % (torch.folder, name)
    options = r.choice(((), (), ("--dim", "1"), ("--keep-whole", "64")))
    text = dcp.ckpt("split", "-n", "--ranks", "1", plain + ".pt", torch.made("split", name))
    if HOLE in text:    # torch moves what comes behind it, or loses it
        return report.skip(1)
    dcp.split(torch, torches, "plain/" + name, plain + ".pt", plain + ".torch.pt", checks, report, r.choice((1, 2, 3, 5)), *options)


def reshard(torch, torches, name, r, checks, report):
    ranks = r.choice((1, 2, 3, 5))
    case, directory = run.Case(torch.version, name, "reshard-%d" % ranks), torch.made("reshard", name)
    text = dcp.ckpt("reshard", torch.directory(name), directory, "--ranks", str(ranks)) or dcp.ckpt("verify", directory)
    report.add(case, text)
    if not text:
        dcp.add_directory(torch, torches, case, directory, torch.reference(name), ranks, checks)


def check_states(torch, torches, checks, report):
    """All that is done with the states that TORCH saved."""
    torch.same_bytes = {}
    dcp.check_list(torch, torches, checks, report)
    dcp.check_merge(torch, torches, checks, report)
    for name, facts in torch.states():
        r = random.Random("options " + name)
        if facts["reference"]:
            reshard(torch, torches, name, r, checks, report)
            dcp.reindex(torch, torches, name, "reindex", [], checks, report)
        if not torch.manifest["plain"][name]:
            split(torch, torches, name, r, checks, report)


def may_load(torches, case):
    """Of dicts that were not flattened torch 2.6 makes a target that it cannot load into, not even from its own directory."""
    torch = next(torch for torch in torches if torch.version == case.torch)
    return torch.manifest["states"][case.object.split("/")[-1]]["options"].get("flatten", True)


def check_part(torches, seed, count):
    """(how many states torch did not do, how many merged files are torch's bytes, how many files), and the report, of COUNT states."""
    report, checks = run.Report(), dcp.Checks()

    def make(torch):
        shutil.rmtree(torch.folder, ignore_errors=True)
        torch.save(["random:%d:%d" % (seed, count)])
        check_states(torch, torches, checks, report)

    run.in_parallel(make, torches)
    checks.loads = {directory: load for directory, load in checks.loads.items() if may_load(torches, load[0])}
    dcp.judge(torches, checks, report)
    for case, text in report.results.items():
        if NO_TARGET in text:
            report.results[case] = ""
    states = [facts for torch in torches for facts in torch.manifest["states"].values()]
    undone = sum(len(torch.manifest["errors"]) for torch in torches) + sum(not facts["reference"] for facts in states)
    same = [equal for torch in torches for equal in torch.same_bytes.values()]
    return (undone, sum(same), len(same)), report


def parse_options():
    parser = argparse.ArgumentParser(description="Compare ckpt with real torch on random states of DCP.")
    parser.add_argument("count", nargs="?", type=int, default=LONG_COUNT if os.environ.get("CKPT_TEST_LONG") == "1" else COUNT)
    parser.add_argument("seed", nargs="?", type=int, default=SEED)
    parser.add_argument("--torch", help="one torch, such as 2.14")
    parser.add_argument("--verbose", action="store_true", help="say what torch cannot do, and which merged files have other bytes")
    return parser.parse_args()


def main():
    options = parse_options()
    if each_torch.has_none():
        return each_torch.SKIPPED
    os.environ["CKPT"] = shutil.which(os.environ["CKPT"]) or os.path.abspath(os.environ["CKPT"])
    totals, passed, failed = [0, 0, 0], 0, 0
    with each_torch.folder("random-dcp") as work:
        os.chdir(work)
        commands = [part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip()]
        torches = [dcp.Torch(number, command) for number, command in enumerate(commands)]
        torches = [torch for torch in torches if torch.numbers >= dcp.OLDEST and options.torch in (None, torch.version)]
        for first in range(0, options.count if torches else 0, PART):
            counts, report = check_part(torches, options.seed + first, min(PART, options.count - first))
            totals = [total + count for total, count in zip(totals, counts)]
            for case, text in sorted(report.results.items()):
                if text:
                    print("FAIL torch %s, %s, %s: %s" % (*case, text), flush=True)
            failed += sum(bool(text) for text in report.results.values())
            passed += sum(not text for text in report.results.values())
            if options.verbose:
                show(torches)
        os.chdir("/")
    if not torches:
        print("skipped: no torch from 2.6 on in CKPT_PYTHON")
        return each_torch.SKIPPED
    print("%d states that torch cannot do; %d of %d merged files are the very bytes of torch" % tuple(totals))
    if totals[0] > MOST_UNDONE * options.count * len(torches):
        print("FAIL: that is more than one in four")
        failed += 1
    return each_torch.tell(passed, failed)


def show(torches):
    for torch in torches:
        for name, text in torch.manifest["errors"].items():
            print("  torch %s cannot save %s: %s" % (torch.version, name, text[:160]))
        for name, facts in torch.manifest["states"].items():
            if not facts["reference"]:
                print("  torch %s cannot read %s: %s" % (torch.version, name, facts["refused"][:160]))
        for (_, name), same in torch.same_bytes.items():
            if not same:
                print("  torch %s, %s: other bytes" % (torch.version, name))


if __name__ == "__main__":
    sys.exit(main())
