# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_quant: python3 tests/fuzz/quant_seeds.py FOLDER

The sound files of tests/interop/quantized_damaged.py, each as the configuration says it, and the short ones with none, too.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
DAMAGED = os.path.join(HERE, "..", "interop", "quantized_damaged.py")
MOST = 12288


def seed(kind, config, data):
    return bytes([kind]) + len(config).to_bytes(2, "little") + config + data


def main(folder):
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-B", DAMAGED, "write", work], check=True, stdout=subprocess.DEVNULL)
        for at, scheme in enumerate(sorted(os.listdir(work))):
            for number in sorted(os.listdir(os.path.join(work, scheme)), key=int)[:1]:
                case = os.path.join(work, scheme, number)
                with open(os.path.join(case, "model.safetensors"), "rb") as stream:
                    data = stream.read()
                path = os.path.join(case, "config.json")
                config = open(path, "rb").read() if os.path.exists(path) else b""
                if len(data) + len(config) > MOST:
                    continue
                with open(os.path.join(folder, scheme), "wb") as stream:
                    stream.write(seed(at % 3, config, data))
                if len(data) < 2048:
                    with open(os.path.join(folder, scheme + "_alone"), "wb") as stream:
                        stream.write(seed(at % 3, b"", data))


if __name__ == "__main__":
    main(sys.argv[1])
