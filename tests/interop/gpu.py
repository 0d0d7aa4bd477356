# SPDX-License-Identifier: Apache-2.0
"""The tensors that a broadcast leaves on a GPU, copied back, beside what real torch loads.

The GPU is a double, on the memory of this machine (tests/doubles), unless CKPT_REAL_GPU is set. CKPT_PYTHON and
CKPT_TEST_DIR as for run.py; CKPT_EXAMPLE is examples/broadcast_to_gpus, CKPT_CUDA_LIB the double.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 3


def tensors_on_gpu(example, path, ranks, work):
    """What all ranks print: [(name, dtype, shape, address, hash)].

    Each rank writes to a file of its own: mpirun joins what ranks print by blocks, not by lines.
    """
    printed = os.path.join(work, "printed")
    os.mkdir(printed)
    command = ["sh", "-c", 'file=$(mktemp "$0/rank.XXXXXX") && exec "$@" >"$file"', printed, example, path]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if ranks > 1:
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0")  # MPI's own; ours are looked for with one rank
        command = ["mpirun", "--oversubscribe", "-np", str(ranks), *command]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env, timeout=100,
                          check=False)
    if done.returncode:
        raise AssertionError("exit %d: %s" % (done.returncode, done.stderr[-500:]))
    found, heads = [], 0
    for name in os.listdir(printed):
        with open(os.path.join(printed, name), encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file]
        heads += sum(len(line) == 1 for line in lines)
        found += [line for line in lines if len(line) > 1]
    if heads != ranks:
        raise AssertionError("%d ranks said something, wanted %d" % (heads, ranks))
    return found


def check(example, command, work, ranks):
    shutil.copy(os.path.join(HERE, "gpu_tensors.py"), work)
    printed = subprocess.run(command.split() + ["gpu_tensors.py", "file.pt"], cwd=work, check=True,
                             stdout=subprocess.PIPE, encoding="utf-8").stdout
    wanted = sorted(tuple(line.split("\t")) for line in printed.splitlines() if "\t" in line) * ranks
    found = tensors_on_gpu(example, os.path.join(work, "file.pt"), ranks, work)
    if sorted((n, d, s, h) for n, d, s, _, h in found) != sorted(wanted):
        return "%d tensors differ" % len(set(wanted) ^ {(n, d, s, h) for n, d, s, _, h in found})
    return "" if len(wanted) >= 15 * ranks else "only %d tensors" % len(wanted)


def main():
    example, pythons = os.environ.get("CKPT_EXAMPLE"), os.environ.get("CKPT_PYTHON")
    if not example or not pythons:
        print("skipped: CKPT_EXAMPLE or CKPT_PYTHON is not set, no real torch to compare with")
        return 77
    if not os.environ.get("CKPT_CUDA_LIB") and not os.environ.get("CKPT_REAL_GPU"):
        print("skipped: neither CKPT_CUDA_LIB nor CKPT_REAL_GPU is set")
        return 77
    base = os.environ.get("CKPT_TEST_DIR") or "."
    os.makedirs(base, exist_ok=True)
    failed = passed = 0
    for command in pythons.split(";"):
        for ranks in (1, RANKS) if shutil.which("mpirun") else (1,):
            with tempfile.TemporaryDirectory(prefix="gpu-", dir=base) as work:
                os.chmod(work, 0o755)
                try:
                    text = check(example, command, work, ranks)
                except AssertionError as error:
                    text = str(error)
                failed += bool(text)
                passed += not text
                if text:
                    print("FAIL %s, %d ranks: %s" % (command, ranks, text))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
