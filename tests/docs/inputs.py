# SPDX-License-Identifier: Apache-2.0
"""One small file or directory of every format on docs/formats.md, made without torch.

FORMATS maps the first cell of a row of that page to a function. make(folder) writes the input into the empty FOLDER and returns its path,
relative to FOLDER, the name of a tensor in it (None: there is none), and what `extract` takes if that is not this tensor.
"""

import io
import os
import shutil
import struct
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
for name in ("bad", "dcp", "interop"):
    sys.path.insert(0, os.path.join(HERE, "..", name))

import files  # noqa: E402
import modules  # noqa: E402
import tar_build  # noqa: E402
import tc_build  # noqa: E402
import test_mobile  # noqa: E402
import test_programs  # noqa: E402
import zero_build  # noqa: E402
from dcp_build import Directory, chunked, numbered, pickled  # noqa: E402
from tc_build import Mesh, S, device_mesh, dtensor, local_of, numbered_ranks, spec, torch_save  # noqa: E402

DDP = os.path.join(HERE, "..", "fixtures", "ddp", "ddp_model.pt")
WEIGHT = "module.head.weight"
SHAPE = (4, 3)


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)
    return name


def by_ckpt(folder, name, *argv):
    subprocess.run([files.CKPT, *argv, DDP, os.path.join(folder, name)], check=True, stdout=subprocess.DEVNULL)
    return name, WEIGHT


def torch_zip(folder):
    shutil.copy(DDP, os.path.join(folder, "model.pt"))
    return "model.pt", WEIGHT


def whole_module(folder):
    pickle = files.pickled(modules.whole([("weight", modules.parameter("0"))]))
    return write(folder, "model.pt", files.torch_file(pickle)), "weight"


def tar(folder):
    tensors = [tar_build.Tensor(1, 7, (2, 3))]
    storages = [tar_build.Storage(7, "FloatStorage", [1, 2, 3, 4, 5, 6])]
    tar_build.save(os.path.join(folder, "model.pt"), {"w": tar_build.Ref(1)}, storages, tensors)
    return "model.pt", "w"


def torch_script(folder):
    return write(folder, "model.pt", modules.torch_script(files.pickled(modules.NET), modules.NET_CODE)), "weight"


def package(folder):
    data = test_programs.package(("models/m.pkl", test_programs.pickle_of(weight=test_programs.tensor())))
    return write(folder, "model.pt", data), "models/m.pkl.weight"


def safetensors(folder):
    return by_ckpt(folder, "model.safetensors", "convert", "-q")


def archive(folder):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as out:
        out.write(DDP, "policy.pth")
        out.writestr("data", "{}")
    return write(folder, "model.zip", stream.getvalue()) + "::policy.pth", WEIGHT


def npy_bytes(numbers):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(numbers)
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%df" % len(numbers), *numbers)


def npz(folder):
    return by_ckpt(folder, "model.npz", "convert", "-q")[0], None


def dcp(folder):
    tensor = numbered("float32", SHAPE)
    os.mkdir(os.path.join(folder, "model"))
    Directory(os.path.join(folder, "model")).tensor("module.w", tensor, chunked(SHAPE, 2)).value("epoch", 3).write()
    return "model", "module.w", "module"


def rank_files(folder):
    tensor, mesh = numbered("float32", SHAPE), Mesh((2,))
    os.mkdir(os.path.join(folder, "model"))
    for rank in range(2):
        local = local_of(tensor, mesh, [S(0)], rank)
        value = {"module.w": dtensor(local, tensor, spec(device_mesh(numbered_ranks((2,)), listed=(0, 1)), S(0)))}
        write(os.path.join(folder, "model"), "model_world_size_2_rank_%d.pt" % rank, torch_save(value))
    return "model", "module.w"


def torch_checkpointing(folder):
    made = tc_build.Checkpoint(os.path.join(folder, "model"), 2)
    made.tensor("model", ("module.w",), numbered("float32", SHAPE), Mesh((2,)), [S(0)]).write()
    return "model", "model.module.w"


def zero(folder):
    zero_build.Zero(os.path.join(folder, "model"), 2, 2, [{"module.w": numbered("float32", SHAPE)}]).write()
    return "model", "module.w"


FORMATS = {
    "`torch.save` file (zip, torch 1.6 and later)": torch_zip,
    "`torch.save` of a whole model": whole_module,
    "legacy `torch.save` stream (torch 0.2 to 1.5)": lambda folder: by_ckpt(folder, "model.pt", "convert", "-q", "--to", "torch-legacy"),
    "tar of torch 0.1": tar,
    "TorchScript archive": torch_script,
    "mobile model (`.ff`, `.ptl`)": lambda folder: (write(folder, "model.ptl", test_mobile.MODEL), "w"),
    "`torch.package` archive": package,
    "`torch.export` program (`.pt2`)": lambda folder: (write(folder, "model.pt2", test_programs.program()), "state_dict.w"),
    "safetensors file": safetensors,
    "any of these in a zip archive (`A.zip::NAME`)": archive,
    "bare pickle": lambda folder: (write(folder, "model.pkl", pickled({"epoch": 3})), None),
    "numpy `.npy` file": lambda folder: (write(folder, "model.npy", npy_bytes([1, 2, 3])), None),
    "numpy `.npz` file": npz,
    "GGUF file": lambda folder: (write(folder, "model.gguf", b"GGUF\x03" + bytes(59)), None),
    "DCP directory": dcp,
    "Hugging Face set of safetensors": lambda folder: by_ckpt(folder, "model", "convert", "-q", "--shard-size", "2KB"),
    "Hugging Face set of pickles": lambda folder: by_ckpt(folder, "model", "convert", "-q", "--to", "torch", "--shard-size", "2KB"),
    "safetensors of single ranks (DCP's `HuggingFaceStorageWriter`)":
        lambda folder: by_ckpt(folder, "model", "split", "-q", "--to", "safetensors", "--ranks", "2"),
    "rank files (`*_rank_N.pt`)": rank_files,
    "DeepSpeed ZeRO directory": zero,
    "`torch_checkpointing` directory": torch_checkpointing,
    "folder of `.npy` files": lambda folder: (by_ckpt(folder, "model", "convert", "-q", "--to", "npy")[0], None),
}
