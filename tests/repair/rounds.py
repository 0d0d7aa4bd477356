# SPDX-License-Identifier: Apache-2.0
"""Rounds of damaged files, each of which is judged; what truncate.py and damage.py share.

    SCRIPT [COUNT [SEED]]    CKPT_KEEP: a folder for the files that went wrong
"""
import concurrent.futures
import os
import random
import sys
import tempfile

SHOWN = 10


def keep(name, left):
    if os.environ.get("CKPT_KEEP") and isinstance(left, bytes):
        with open(os.path.join(os.environ["CKPT_KEEP"], name + ".pt"), "wb") as file:
            file.write(left)


def run(name, count, rounds, things):
    """
    ROUNDS(work, COUNT, random numbers) gives (title, jobs) for each round; a job is (kind, what is left of it, how lost tensors are filled,
    what to call it). Returns the exit status.
    """
    count = int(sys.argv[1]) if len(sys.argv) > 1 else count
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    failed = done = 0
    with tempfile.TemporaryDirectory(prefix=name + "-", dir=base) as work, concurrent.futures.ThreadPoolExecutor(2) as pool:
        def judge(job):
            with tempfile.TemporaryDirectory(dir=work) as folder:
                return job[0].judge(job[1], folder, job[2])
        for title, jobs in rounds(work, count, rng):
            wrong = [(job, text) for job, text in zip(jobs, pool.map(judge, jobs)) if text]
            print("%s: %d wrong" % (title, len(wrong)), flush=True)
            for i, (job, text) in enumerate(wrong[:SHOWN]):
                print("FAIL %s: %s" % (job[3], text))
                keep("%s-%d-%d" % (name, done, i), job[1])
            failed += len(wrong)
            done += len(jobs)
    print("%d %s, %d wrong" % (done, things, failed))
    return 1 if failed or not done else 0
