# SPDX-License-Identifier: Apache-2.0
"""Files that torch wrote, cut off at random places and repaired, are loaded by torch: what was whole is the same.

    repair.py [COUNT]    COUNT places for each file (15)

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for run.py. tests/repair/remains.py says what is whole.
"""
import glob
import json
import os
import random
import subprocess
import sys

import each_torch

sys.path.insert(0, os.path.join(os.path.dirname(each_torch.HERE), "repair"))
import remains  # noqa: E402

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 15


def repair_one(ckpt, path, whole, data, at, number, fill):
    """(case for torch, None) or (None, what is wrong), or neither: nothing could be saved, and was not."""
    cut, out = "%s.%d.cut" % (path, number), "%s.%d.out" % (path, number)
    with open(cut, "wb") as file:
        file.write(data[:at])
    done = subprocess.run([ckpt, "repair", *(["--fill", fill] if fill else []), cut, out], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    os.remove(cut)
    states = remains.states(whole, data[:at])
    lost = [key for key in states or () if states[key] == "lost"]
    sparse = {key for key, tensor, _ in remains.leaves(whole.object) if "sparse" in getattr(tensor, "name", "")}
    gone = [key for key in lost if not fill or key in sparse]  # indices cannot be filled
    stuck = any(not remains.is_entry(whole.object, key) for key in gone)
    if states is None or len(lost) == len(states) or stuck:
        wrong = done.returncode != 2 or os.path.exists(out)
        return None, "the first %d bytes: status %d, wanted 2" % (at, done.returncode) if wrong else None
    wanted = 1 if any(state != "proven" for state in states.values()) else 0
    if done.returncode != wanted:
        return None, "the first %d bytes: status %d, wanted %d: %s" % (at, done.returncode, wanted, done.stdout + done.stderr)
    return {"was": os.path.basename(path), "is": os.path.basename(out), "fill": fill, "lost": [list(key) for key in lost],
            "gone": [list(key) for key in gone]}, None


def check_torch(ckpt, command, work):
    subprocess.run(command.split() + ["repair_files.py", "out"], cwd=work, check=True, stdout=subprocess.DEVNULL)
    folder, rng, cases, wrong, refused = os.path.join(work, "out"), random.Random(2), [], [], 0
    for path in sorted(glob.glob(os.path.join(folder, "*"))):
        with open(path, "rb") as file:
            data = file.read()
        whole = remains.read(data)
        begin = len(data) - len(data) // 2 if "lists" in path else 0
        for number in range(COUNT):
            at = rng.randrange(begin if number % 3 else 0, len(data))
            case, text = repair_one(ckpt, path, whole, data, at, number, rng.choice((None, "zeros", "nan")))
            if case:
                cases.append(case)
            elif text:
                wrong.append("%s: %s" % (os.path.basename(path), text))
            else:
                refused += 1
    with open(os.path.join(folder, "cases.json"), "w") as file:
        json.dump(cases, file)
    os.rename(os.path.join(work, "repair_load.py"), os.path.join(folder, "repair_load.py"))
    said = subprocess.run(command.split() + ["repair_load.py", "cases.json"], cwd=folder, check=True, stdout=subprocess.PIPE,
                          text=True).stdout.splitlines()
    wrong += ["%s, %s: %s" % (case["is"], case["fill"], text) for case, text in zip(cases, said) if text != "right"]
    if len(said) != len(cases) or len(cases) < COUNT:
        wrong.append("%d of %d files were loaded" % (len(said), len(cases)))
    return said.count("right") + refused, wrong


if __name__ == "__main__":
    each_torch.main("repair", check_torch)
