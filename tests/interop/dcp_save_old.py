# SPDX-License-Identifier: Apache-2.0
"""Made by torch 1.13, which had DCP elsewhere and does not flatten: dcp_save_old.py FOLDER

FOLDER/old is a directory, FOLDER/old.torch.pt the same state saved by torch.save. Newer torches do not load the
directory, nor this one that of newer torches.
"""

import dataclasses
import os
import sys
import warnings

warnings.simplefilter("ignore")


def relaxed(dataclass):
    """Python 3.11 refuses the defaults in torch 1.13, unless their classes can be hashed."""
    def decorate(cls=None, **options):
        if cls is None:
            return lambda one: decorate(one, **options)
        if not options.get("frozen") and "__hash__" not in vars(cls):
            options["unsafe_hash"] = True
        return dataclass(cls, **options)
    return decorate


dataclasses.dataclass = relaxed(dataclasses.dataclass)

import torch  # noqa: E402
import torch.distributed._shard.checkpoint as dcp  # noqa: E402

import torch_files  # noqa: E402


def state():
    torch.manual_seed(5)
    model = torch.nn.Linear(7, 5)
    tensors = {"model." + key: tensor.detach() for key, tensor in model.state_dict().items()}
    return dict(tensors, turned=torch.randn(3, 4).t(), half=torch.randn(6).bfloat16(), mask=torch.tensor([True, False]),
                part=torch.arange(20)[3:9], step=torch.tensor(3), empty=torch.ones(0), epoch=3, name="run", none=None,
                groups=[{"lr": 0.1, "params": [0, 1]}], pair=(torch.ones(2), 1))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    print("torch version", torch.__version__)
    values = state()
    dcp.save_state_dict(values, dcp.FileSystemWriter(os.path.join(folder, "old"), single_file_per_rank=True), no_dist=True)
    compact = {key: value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value
               for key, value in values.items()}
    torch.save(compact, os.path.join(folder, "old.torch.pt"))


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()
