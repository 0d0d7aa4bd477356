# SPDX-License-Identifier: Apache-2.0
"""Random objects: ckpt has to write what real torch writes.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/random_objects.py [COUNT [SEED]] [--torch VERSION] [--shrink N]

As run.py, with COUNT objects of random_plans.py for each torch, from SEED on; each file that differs is loaded, to see whether values differ. What is
found is counted by what it looks like. --shrink makes one object of each of the N most frequent kinds as small as it gets. CKPT_TEST_LONG=1: more
objects. Ends with 77 if there is no torch.
"""
import argparse
import collections
import json
import os
import re
import shlex
import shutil
import sys

import each_torch
import random_plans
import run
import same_file

SEED, COUNT, LONG_COUNT = 9100, 40, 1000
SAME, OTHER_BYTES, REFUSED, VALUES = "same", "other bytes", "refused", "VALUES DIFFER"
WORST = (VALUES, REFUSED, OTHER_BYTES)

Outcome = collections.namedtuple("Outcome", "name operation kind text")


def operations(name, facts, torch):
    """[(operation, ckpt's arguments, the file that torch wrote, ckpt's own)] for one object."""
    source = torch.path("a", name)
    found = []

    def add(operation, arguments, wanted):
        if facts["legacy"]:      # which does not say what torch wrote it
            arguments = arguments[:1] + ["--profile", torch.version] + arguments[1:]
        found.append((operation, arguments, torch.path(wanted, name), torch.path("b" + wanted, name)))

    add("convert", ["convert", source], "c")
    if facts["strip"] == "done":
        add("strip-module", ["strip-module", source], "s")
    if facts["add"] == "done":
        add("add-module", (["add-prefix", "module."] if facts["strip"] == "done" else ["add-module"]) + [source], "add")
    for edit, command in facts["edits"].items():
        if command != "none" and not isinstance(command, dict):
            add(edit, command + [source], edit)
    return found


def difference(torch, facts, operation, wanted, found):
    if facts["legacy"] and operation != "convert":
        return same_file.difference_of_streams(wanted, found)
    return torch.difference(wanted, found)


def check(torch, manifest):
    """[Outcome] of all objects; what values differ is not known yet."""
    outcomes = []
    for name, facts in manifest["objects"].items():
        for operation, arguments, wanted, found in operations(name, facts, torch):
            status, message = run.run_ckpt(arguments, found)
            if status:
                outcomes.append(Outcome(name, operation, REFUSED, "exit status %d: %s" % (status, message)))
                continue
            try:
                text = difference(torch, facts, operation, wanted, found)
            except Exception as error:
                text = "not to be compared: %s: %s" % (type(error).__name__, error)
            outcomes.append(Outcome(name, operation, OTHER_BYTES if text else SAME, text))
    return outcomes


def load_pairs(torch, pairs):
    """{found: what is wrong} of PAIRS, {found: wanted}: what TORCH does not load with equal values."""
    bad, rest = {}, list(pairs)
    while rest:
        listing, result = torch.folder + "/pairs.txt", torch.folder + "/loads.txt"
        with open(listing, "w", encoding="utf-8") as stream:
            stream.writelines("%s\t%s\n" % (pairs[found], found) for found in rest)
        torch.run("check_load.py", listing, result)
        last, done = None, False
        with open(result, encoding="utf-8") as stream:
            for line in stream:
                kind, *fields = line.rstrip("\n").split("\t")
                done |= kind == "done"
                if kind == "at":
                    last = fields[0]
                elif kind == "bad":
                    bad.setdefault(fields[0], fields[2])
        if done or last is None:
            break
        bad[last] = "torch stopped here"
        rest = rest[rest.index(last) + 1:]
    return bad


def load_differing(torch, outcomes, manifest):
    """OUTCOMES with VALUES where what was written loads otherwise."""
    pairs, of_file = {}, {}
    for outcome in outcomes:
        if outcome.kind == OTHER_BYTES or (outcome.kind == SAME and manifest["objects"][outcome.name]["legacy"]):
            for operation, _, wanted, found in operations(outcome.name, manifest["objects"][outcome.name], torch):
                if operation == outcome.operation:
                    pairs[found], of_file[found] = wanted, outcome
    bad = {of_file[found]: text for found, text in load_pairs(torch, pairs).items()}
    return [outcome._replace(kind=VALUES, text=bad[outcome] + " | " + outcome.text) if outcome in bad else outcome for outcome in outcomes]


def judge(torch, plans):
    """({name: plan}, [Outcome], how many torch could not do) for PLANS."""
    for number, plan in enumerate(plans):
        plan["name"] = "r%d" % number
    shutil.rmtree(torch.folder, ignore_errors=True)
    os.makedirs(torch.folder)
    with open(torch.folder + "/plans.json", "w", encoding="utf-8") as stream:
        json.dump(plans, stream)
    torch.generate("plans:" + torch.folder + "/plans.json")
    outcomes = load_differing(torch, check(torch, torch.manifest), torch.manifest)
    return {plan["name"]: plan for plan in plans}, outcomes, torch.manifest["errors"]


def looks_like(outcome):
    """What differs, without what is different in each file."""
    text = re.sub(r"0x[0-9a-f]+|\b\d+\b|'[^']*\.pt'|torch\d+/\S+", "#", outcome.text)
    text = re.sub(r".*data\.pkl differs at #: operation # at #: ", "", text) if outcome.kind == OTHER_BYTES else text
    return outcome.kind, re.sub(r"after .*", "", text)[:150]


def shrink(torch, plan, outcome, rounds=12):
    """The smallest plan that looks like OUTCOME still."""
    wanted = (outcome.operation, outcome.kind)
    for _ in range(rounds):
        candidates = list(random_plans.smaller(plan))[:80]
        if not candidates:
            break
        by_name, outcomes, _ = judge(torch, candidates)
        still = [by_name[o.name] for o in outcomes if (o.operation, o.kind) == wanted and similar(o, outcome)]
        if not still:
            break
        plan = min(still, key=random_plans.weight)
    return plan


def similar(one, other):
    return looks_like(one)[1][:24] == looks_like(other)[1][:24]


def show(plan):
    return "protocol %d%s, %s%s" % (plan["protocol"], ", legacy" if plan.get("legacy") else "", "; ".join(
        "%d=%s%s%s" % (number, kind, "" if detail is None else " %r" % (detail,), parts or "") for number, (kind, detail, parts) in enumerate(plan["nodes"])),
        "; late %r" % plan["late"] if plan["late"] else "")


def make_plans(torch, seed, count):
    plans = [random_plans.make(number, torch.numbers) for number in range(seed, seed + count)]
    for number, plan in enumerate(plans):
        plan["legacy"] = number % 5 == 4
    return plans


def found_plans():
    """Small ones, by which something was found that objects_found.py cannot hold: legacy streams that are edited."""
    with open(os.path.join(run.HERE, "found_plans.json"), encoding="utf-8") as stream:
        return json.load(stream)


def check_torch(torch, options):
    """How many outcomes there are, and [what is wrong]."""
    by_name, outcomes, errors = judge(torch, found_plans() + make_plans(torch, options.seed, options.count))
    counts = collections.Counter(outcome.kind for outcome in outcomes)
    print("torch %s: %d objects, %d that torch cannot do; %d outcomes: %s" % (
        torch.version, len(by_name), len(errors), len(outcomes), ", ".join("%d %s" % (count, kind) for kind, count in counts.items())), flush=True)
    if options.verbose:
        for name, text in errors.items():
            print("  cannot:", text.strip().split("\n")[-1][:200])
    groups, known = collections.defaultdict(list), collections.Counter()
    exceptions = run.Exceptions(os.path.join(run.HERE, "exceptions.txt"))
    for outcome in outcomes:
        kinds = random_plans.kinds(by_name[outcome.name])
        reason = exceptions.reason_of_any(torch.version, kinds, outcome.operation) if outcome.kind != SAME else None
        if reason:
            known[reason] += 1
            if options.verbose:
                print("  known: %s %s: %s" % (outcome.name, outcome.operation, outcome.text[-400:]))
        elif outcome.kind != SAME:
            groups[looks_like(outcome)].append(outcome)
    for reason, count in known.most_common():
        print("  %d of them known: %s" % (count, reason), flush=True)
    wrong = []
    for number, (key, found) in enumerate(sorted(groups.items(), key=lambda item: (WORST.index(item[0][0]), -len(item[1])))):
        first = min(found, key=lambda outcome: random_plans.weight(by_name[outcome.name]))
        plan = by_name[first.name]
        if number < options.shrink:
            plan = shrink(torch, plan, first)
        wrong.append("%d %s: %s, first in %s: seed %d, %s\n    %s" % (len(found), key[0], first.text[:400], first.operation, plan["seed"], "", show(plan)[:900]))
    return len(outcomes), wrong


def parse_options():
    parser = argparse.ArgumentParser(description="Compare ckpt with real torch on random objects.")
    parser.add_argument("count", nargs="?", type=int, default=LONG_COUNT if os.environ.get("CKPT_TEST_LONG") == "1" else COUNT)
    parser.add_argument("seed", nargs="?", type=int, default=SEED)
    parser.add_argument("--torch", help="one torch, such as 2.14")
    parser.add_argument("--shrink", type=int, default=0, metavar="N", help="make the first of N kinds small")
    parser.add_argument("--verbose", action="store_true", help="say what torch cannot do")
    return parser.parse_args()


def main():
    options = parse_options()
    if each_torch.has_none():
        return each_torch.SKIPPED
    os.environ["CKPT"] = shutil.which(os.environ["CKPT"]) or os.path.abspath(os.environ["CKPT"])
    failed = right = 0
    with each_torch.folder("random") as work:
        os.chdir(work)
        commands = [part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip()]
        torches = [run.Torch(number, command) for number, command in enumerate(commands)]
        for torch in torches:
            if options.torch in (None, torch.version):
                count, wrong = check_torch(torch, options)
                right += count
                failed += len(wrong)
                for text in wrong:
                    print("FAIL torch %s: %s" % (torch.version, text), flush=True)
        os.chdir("/")
    return each_torch.tell(right, failed)


if __name__ == "__main__":
    sys.exit(main())
