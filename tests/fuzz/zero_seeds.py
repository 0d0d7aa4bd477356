# SPDX-License-Identifier: Apache-2.0
"""Makes inputs that fuzz_zero begins with: directories of tests/dcp/cases_zero.py, sound ones and wrong ones.

    python3 tests/fuzz/zero_seeds.py SEEDS
"""

import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "dcp"))

from cases_zero import WRONG, groups, small  # noqa: E402
from dcp_build import SIZES, Call, Tensor, numbered, pickled, rebuilt  # noqa: E402
from tc_build import View  # noqa: E402
from zero_build import Zero  # noqa: E402

STORAGES, BYTES = 8, 64


def over_storages(value):
    """Tensors become views of the storages that the target makes, one after the other."""
    made = {}

    def convert(part):
        if id(part) in made:
            return made[id(part)]
        if isinstance(part, (Tensor, View)):
            tensor = part.tensor if isinstance(part, View) else part
            key = str(len([one for one in made.values() if isinstance(one, Call)]) % STORAGES)
            new = rebuilt(tensor, *(([part.strides] if isinstance(part, View) else [])), count=BYTES // SIZES[tensor.dtype],
                          key=key)
        elif isinstance(part, Call):
            new = Call(part.function, *map(convert, part.arguments), state=part.state)
        elif isinstance(part, dict):
            new = {key: convert(one) for key, one in part.items()}
        elif isinstance(part, (list, tuple)):
            new = type(part)(map(convert, part))
        else:
            return part
        made[id(part)] = new
        kept.append(part)
        return new
    kept = []
    return convert(value)


def seed(made):
    flags = (made.stage == 3) | 2 * (made.world == 2) | 4 * bool(made.prefix)
    parts = [pickled(over_storages(value)) for value in made.model + made.optim]
    return bytes([flags]) + b"".join(struct.pack("<H", len(part)) + part for part in parts)


def sound():
    for stage in (1, 2, 3):
        for world in (1, 2):
            made = small("none", stage, world)
            made.prefix = "bf16_" if stage == 1 else ""
            yield "stage%d-%d" % (stage, world), made
    old = small("none")
    for optim in old.optim:
        optim["param_shapes"] = old.model[0].pop("param_shapes", None) or old.optim[0]["param_shapes"]
    yield "old", old
    plain = small("none")
    plain.optim = []
    plain.model[0].update(param_shapes=None, module={"w": numbered("float32", (16,)), "h": numbered("float16", (4,))})
    yield "module", plain
    bf16 = small("none", 1)
    for optim in bf16.optim:
        del optim["optimizer_state_dict"]["zero_stage"]
    yield "bf16", bf16
    many = Zero("none", 3, 2, [groups()[1]], {"half": numbered("float16", (2, 3)), "turned": View(
        numbered("float32", (3, 2)), (1, 3)), "mask": numbered("bool", (5,))}, {"f": numbered("bfloat16", (3,))})
    yield "kinds", many


def main(folder):
    os.makedirs(folder, exist_ok=True)
    made = dict(sound())
    for number, (stage, change, *_) in enumerate(WRONG):
        wrong = small("none", stage)
        change(wrong)
        made["wrong%d" % number] = wrong
    for name, one in made.items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(seed(one))


if __name__ == "__main__":
    main(sys.argv[1])
