# SPDX-License-Identifier: Apache-2.0
"""Load files, whoever wrote them, and save them again with the running torch.

    python save_again.py LIST RESULT

LIST has lines SOURCE<tab>TARGET. RESULT is JSON: {SOURCE: "done", or {"error": why this torch cannot do it}}. As in generate.py each has a process of its own.
"""
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import fake_cuda  # noqa: E402
import generate  # noqa: E402
import torch_files  # noqa: E402


def main():
    fake_cuda.install()
    torch.set_num_threads(1)
    done = {}
    with open(sys.argv[1], encoding="utf-8") as stream:
        for line in stream:
            source, target = line.rstrip("\n").split("\t")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            done[source] = generate.in_child(generate.guarded, generate.save_again, source, target)
    with open(sys.argv[2], "w", encoding="utf-8") as stream:
        json.dump(done, stream)


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()
