# SPDX-License-Identifier: Apache-2.0
"""Random objects of one torch, written as another one writes them: `ckpt convert --profile VERSION`.

    CKPT=build/ckpt CKPT_PYTHON='python3;other-python' python3 tests/interop/random_profiles.py [COUNT [SEED]] [--from VERSION] [--to VERSION] [--verbose]

COUNT objects of random_plans.py, from SEED on, are saved by each torch. Each other torch loads the files and saves them again, which is what has to come out;
exceptions.txt has the classes whose own form depends on the version of Python, numpy or torch.nn. Where other bytes come out, the other torch has to load the
same values from them as from its own. What it cannot load is counted and left out. CKPT_TEST_LONG=1: more objects. Ends with 77 if there is no torch.
"""
import argparse
import collections
import json
import os
import shutil
import sys

import each_torch
import random_objects
import random_plans
import run

SEED, COUNT, LONG_COUNT = 12000, 10, 500
NOT_WEIGHTS_ONLY = "UnpicklingError: Weights only load failed"      # what loads in the other way, and is not in the file as torch writes it


def generate(torch, seed, count):
    """{name: plan} of the objects in a/ of TORCH's folder."""
    plans = random_objects.make_plans(torch, seed, count)
    for number, plan in enumerate(plans):
        plan["name"] = "r%d" % number
    os.makedirs(torch.folder, exist_ok=True)
    with open(torch.folder + "/plans.json", "w", encoding="utf-8") as stream:
        json.dump(plans, stream)
    torch.generate("only-build:plans:" + torch.folder + "/plans.json")
    return {plan["name"]: plan for plan in plans if plan["name"] in torch.manifest["objects"]}


def save_again(writer, torch, names):
    """{name: path} of what TORCH made of WRITER's files, and how many it could not load."""
    sources = {writer.path("a", name): "%s/from-%s/%s.pt" % (torch.folder, writer.version, name) for name in names}
    listing, result = torch.folder + "/again.txt", torch.folder + "/again.json"
    with open(listing, "w", encoding="utf-8") as stream:
        stream.writelines("%s\t%s\n" % pair for pair in sources.items())
    text = torch.run("save_again.py", listing, result)
    if not os.path.exists(result):
        raise SystemExit("save_again.py failed with torch %s:\n%s" % (torch.version, text))
    with open(result, encoding="utf-8") as stream:
        done = json.load(stream)
    os.unlink(result)
    return {name: sources[writer.path("a", name)] for name in names if done[writer.path("a", name)] == "done"}


def compare(writer, torch, wanted):
    outcomes = []
    for name, path in wanted.items():
        found = "%s/found-%s/%s.pt" % (torch.folder, writer.version, name)
        status, message = run.run_ckpt(["convert", "--profile", torch.version, writer.path("a", name)], found)
        text = "exit status %d: %s" % (status, message) if status else torch.difference(path, found)
        kind = random_objects.REFUSED if status else random_objects.OTHER_BYTES if text else random_objects.SAME
        outcomes.append(random_objects.Outcome(name, "from-%s" % writer.version, kind, text))
    found = {"%s/found-%s/%s.pt" % (torch.folder, writer.version, outcome.name): outcome for outcome in outcomes if outcome.kind == random_objects.OTHER_BYTES}
    bad = random_objects.load_pairs(torch, {path: wanted[outcome.name] for path, outcome in found.items()})
    values = {found[path]: text for path, text in bad.items()}
    return [outcome._replace(kind=random_objects.VALUES, text=values[outcome] + " | " + outcome.text) if outcome in values else outcome for outcome in outcomes]


def check_pair(writer, torch, plans, exceptions, options):
    """How many are right, and [what is wrong]."""
    wanted = save_again(writer, torch, list(plans))
    outcomes = compare(writer, torch, wanted)
    counts = collections.Counter(outcome.kind for outcome in outcomes)
    known, groups = collections.Counter(), collections.defaultdict(list)
    for outcome in outcomes:
        kinds = random_plans.kinds(plans[outcome.name])
        may_be_known = outcome.kind == random_objects.OTHER_BYTES or outcome.text.startswith(NOT_WEIGHTS_ONLY)
        reason = exceptions.reason_of_any(torch.version, kinds, outcome.operation) if may_be_known else None
        if reason:
            known[reason] += 1
        elif outcome.kind != random_objects.SAME:
            groups[random_objects.looks_like(outcome)].append(outcome)
    print("torch %s as %s: %d objects, %d that the other cannot do; %s" % (
        writer.version, torch.version, len(plans), len(plans) - len(wanted), ", ".join("%d %s" % (count, kind) for kind, count in counts.items())), flush=True)
    for reason, count in known.most_common():
        print("  %d of them known: %s" % (count, reason), flush=True)
    wrong = []
    for (kind, _), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        first = min(found, key=lambda outcome: random_plans.weight(plans[outcome.name]))
        plan = plans[first.name]
        wrong.append("torch %s as %s: %d %s: %s: seed %d, %s" % (
            writer.version, torch.version, len(found), kind, first.text[:400], plan["seed"], random_objects.show(plan)[:900] if options.verbose else ""))
    return counts[random_objects.SAME] + sum(known.values()), wrong


def parse_options():
    parser = argparse.ArgumentParser(description="Compare `ckpt convert --profile` with real torch on random objects.")
    parser.add_argument("count", nargs="?", type=int, default=LONG_COUNT if os.environ.get("CKPT_TEST_LONG") == "1" else COUNT)
    parser.add_argument("seed", nargs="?", type=int, default=SEED)
    parser.add_argument("--from", dest="writer", help="one torch, such as 2.14")
    parser.add_argument("--to", help="one torch, such as 2.14")
    parser.add_argument("--verbose", action="store_true", help="show the objects that differ")
    return parser.parse_args()


def main():
    options = parse_options()
    if each_torch.has_none():
        return each_torch.SKIPPED
    os.environ["CKPT"] = shutil.which(os.environ["CKPT"]) or os.path.abspath(os.environ["CKPT"])
    failed = right = 0
    with each_torch.folder("profiles") as work:
        os.chdir(work)
        exceptions = run.Exceptions(os.path.join(run.HERE, "exceptions.txt"))
        torches = [run.Torch(number, command) for number, command in enumerate(part for part in os.environ["CKPT_PYTHON"].split(";") if part.strip())]
        for writer in torches:
            if options.writer not in (None, writer.version):
                continue
            plans = generate(writer, options.seed, options.count)
            for torch in torches:
                if torch is writer or options.to not in (None, torch.version):
                    continue
                os.makedirs(torch.folder, exist_ok=True)
                count, wrong = check_pair(writer, torch, plans, exceptions, options)
                right += count
                failed += len(wrong)
                for text in wrong:
                    print("FAIL", text, flush=True)
            shutil.rmtree(writer.folder)
        os.chdir("/")
    return each_torch.tell(right, failed)


if __name__ == "__main__":
    sys.exit(main())
