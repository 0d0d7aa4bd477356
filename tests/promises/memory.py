# SPDX-License-Identifier: Apache-2.0
"""Each allocation fails in turn, of every command: an error that says so, and nothing is left behind or changed."""

import os
import subprocess

import common
from common import Finding

PRELOAD = os.environ.get("CKPT_FAIL_ALLOC_LIB", "")
READING = [["ls", "IN"], ["ls", "--json", "IN"], ["info", "IN"], ["cat", "IN", "module.stem.0.weight"], ["verify", "IN"], ["verify", "--json", "IN"],
           ["stat", "IN"], ["stat", "--hist", "IN"], ["stat", "--depth", "2", "--quantiles", "0.1,0.9", "IN"], ["scan", "IN"], ["scan", "--json", "IN"], ["why", "IN"], ["dis", "IN"], ["diff", "IN", "IN"],
           ["latest", "."], ["repair", "-n", "IN"], ["help", "ls"], ["ls", "IN", "IN"], ["info", "--json", "-j", "2", "IN", "IN"], ["verify", "IN", "IN"]]


def run(arguments, cwd, number, all_behind):
    """(exit code, stdout, stderr, how many allocations there were)"""
    read, write = os.pipe()
    env = dict(os.environ, LC_ALL="C", LD_PRELOAD=PRELOAD, CKPT_COUNT_FD=str(write), CKPT_FAIL_ALLOC=str(number))
    if all_behind:
        env["CKPT_FAIL_ALL"] = "1"
    try:
        done = subprocess.run([common.CKPT, *arguments], cwd=cwd, env=env, capture_output=True, pass_fds=[write], timeout=common.TIMEOUT, check=False)
    except subprocess.TimeoutExpired as e:
        raise Finding("ckpt %s hangs if allocation %d fails" % (" ".join(arguments), number)) from e
    finally:
        os.close(write)
    with os.fdopen(read) as file:
        counted = file.read().split()
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), int(counted[-1]) if counted else 0


def program(rng, inputs, work):
    kind = rng.choice(sorted(common.KINDS))
    words = rng.choice(READING + [words for words, _ in common.COMMANDS])
    source, out = os.path.join(work, kind), os.path.join(work, "out")
    common.copy(os.path.join(inputs, kind), source)
    arguments = common.fill(words, source, out)
    code, said, _, count = run(arguments, work, 0, False)
    subprocess.run(["rm", "-rf", out, out + ".ckpt-staged", os.path.join(work, ".out.ckpt-staged")], check=True)
    if not count:
        return  # it ended by _exit()
    before = common.snapshot(work)
    for i in range(12):  # what is decided at the beginning is decided with few allocations
        number, all_behind = rng.randrange(1, min(count, 20 if i < 3 else count) + 1), rng.random() < 0.3
        found, text, err, _ = run(arguments, work, number, all_behind)
        told = "allocation %d of %d%s: ckpt %s\nexit code %s\n%s" % (number, count, " and all behind it" if all_behind else "",
                                                                      " ".join(arguments), found, err[:1500])
        if found not in (*range(0, 11), 64):
            raise Finding("crash: " + told)
        after = common.snapshot(work)
        for name in list(after):
            if name.endswith(".ckpt-staged"):
                del after[name]
        if found and common.difference(before, after) and not (words[0] == "repair" and found == 1):  # something is lost: OUT is there
            raise Finding("%s\n%s" % (common.difference(before, after), told))
        if found == 0 and code:
            raise Finding("fails with %d else: %s" % (code, told))
        if found == 0 and text != said and words[0] in ("ls", "info", "cat", "verify", "scan", "stat", "why", "diff", "dis"):
            raise Finding("another answer: %s\n%s\n%s" % (told, said[:800], text[:800]))
        if found and found != code and not err and not all_behind and words[0] != "latest":
            raise Finding("no message: " + told)
        subprocess.run(["rm", "-rf", out, os.path.join(work, ".out.ckpt-staged")], check=True)


if __name__ == "__main__":
    if os.environ.get("CKPT_SANITIZED") == "1" or not PRELOAD:
        print("a sanitizer has allocations of its own")
        raise SystemExit(77)
    if not run(["help", "ls"], ".", 0, False)[3]:
        raise SystemExit("%s counts no allocations" % PRELOAD)
    common.rounds(program, 60, 2000)
