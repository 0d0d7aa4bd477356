# SPDX-License-Identifier: Apache-2.0
"""Tensors of every kind, storages, and torch's own small objects."""

import collections

import torch

import fake_cuda
import user_types
from registry import Skip, add, item, torch_version

CLASSIC = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
           "bool", "complex128", "complex64")
SHELLS = {
    "float8_e5m2": (2, 6), "float8_e4m3fn": (2, 6), "float8_e5m2fnuz": (2, 6),
    "float8_e4m3fnuz": (2, 6), "float8_e8m0fnu": (2, 14), "float4_e2m1fn_x2": (2, 14),
    "uint16": (2, 6), "uint32": (2, 6), "uint64": (2, 6), "complex32": (2, 6),
    "bcomplex32": (2, 14), "bits8": (2, 6), "bits1x8": (2, 6), "bits2x4": (2, 6),
    "bits4x2": (2, 6), "bits16": (2, 6),
}


def of_dtype(name):
    """Twelve elements whose bytes count up, whatever the dtype."""
    dtype = getattr(torch, name)
    if name == "bool":
        return torch.arange(12) % 3 == 0
    if name in CLASSIC:
        return torch.arange(12).to(dtype).view(3, 4)
    nbytes = 12 * torch.empty(1, dtype=dtype).element_size()
    return torch.arange(nbytes, dtype=torch.uint8).view(dtype)


def add_dtypes():
    for name in CLASSIC:
        add("dtype_" + name, lambda name=name: of_dtype(name))
    for name, since in SHELLS.items():
        add("dtype_" + name, lambda name=name: of_dtype(name), since=since)


add_dtypes()


@item()
def dtype_all():
    names = list(CLASSIC)
    names += [name for name, since in SHELLS.items() if torch_version() >= since]
    return collections.OrderedDict((name, of_dtype(name)) for name in names)


@item()
def tensor_views():
    base = torch.arange(6, dtype=torch.float32).view(2, 3)
    return [base, base[1], base.t(), base.view(-1)[2:4], base[:, 1:], base]


@item()
def tensor_view_alone():
    return torch.arange(1000, dtype=torch.float32)[100:102]


@item()
def tensor_shapes():
    return {"scalar": torch.tensor(2.5), "empty": torch.empty(0), "0 by 3": torch.empty(0, 3),
            "3 by 0": torch.empty(3, 0, 2), "ones": torch.ones(1, 1, 1, 1),
            "int scalar": torch.tensor(7), "seven": torch.zeros(1, 2, 1, 2, 1, 2, 1)}


@item()
def tensor_strides():
    base = torch.arange(24, dtype=torch.int32)
    return {"expanded": torch.tensor([1.0, 2.0]).expand(3, 2), "overlap": base.unfold(0, 4, 2),
            "steps": base[1::3], "permuted": base.view(2, 3, 4).permute(2, 0, 1),
            "strided": base.as_strided((2, 2), (5, 7), 3),
            "channels_last": torch.zeros(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)}


@item()
def tensor_empties():
    return [torch.empty(0), torch.ones(1), torch.empty(0, dtype=torch.int64), torch.empty(0)]


@item()
def tensor_empty_alone():
    return torch.empty(0)


@item()
def tensor_empty_view():
    base = torch.ones(4)
    return [base[2:2], base, base[4:]]


@item()
def tied_tensors():
    weight = torch.arange(4.0)
    return {"first": weight, "second": weight, "detached": weight.detach(), "half": weight[:2]}


@item()
def tied_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    fill(model)
    return [model.state_dict(), list(model.parameters()), model[1].weight]


def fill(model):
    """Parameters that count up, the same in every torch."""
    for parameter in model.parameters():
        values = torch.arange(parameter.numel(), dtype=parameter.dtype)
        parameter.data.copy_(values.view(parameter.shape))


@item()
def parameters():
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    return [torch.nn.Parameter(torch.ones(2)), frozen, torch.nn.Parameter(torch.tensor(1.0))]


@item()
def parameter_with_attributes():
    parameter = torch.nn.Parameter(torch.arange(3.0))
    parameter.tag = "value"
    parameter.partition = (1, 2)
    return [parameter, torch.nn.Parameter(torch.zeros(1))]


@item()
def parameter_list_and_dict():
    return torch.nn.ParameterList([torch.nn.Parameter(torch.ones(i)) for i in range(1, 4)])


@item()
def parameter_uninitialised():
    if not hasattr(torch.nn.parameter, "UninitializedParameter"):
        raise Skip("no uninitialised parameters here")
    return torch.nn.LazyLinear(3)


@item(since=(2, 6))
def buffers():
    return [torch.nn.Buffer(torch.ones(2)), torch.nn.Buffer(torch.zeros(1), persistent=False)]


@item()
def tensor_with_attributes():
    tensor = torch.arange(3)
    tensor.note = "attribute"
    tensor.other = torch.ones(1)
    return [tensor, torch.ones(2)]


@item()
def tensor_child():
    if torch_version() == (1, 13):
        raise Skip("1.13 saves a state with it that it cannot load")
    return torch.arange(3.0).as_subclass(user_types.TensorChild)


@item()
def tensor_child_with_attributes():
    noted = torch.arange(2.0).as_subclass(user_types.TensorChild)
    noted.note = "attribute"
    return noted


@item()
def requires_grad():
    leaf = torch.ones(3, requires_grad=True)
    return [leaf, leaf * 2, leaf.detach(), leaf[1:]]


@item()
def gradient_beside_it():
    leaf = torch.ones(3, requires_grad=True)
    leaf.grad = torch.full((3,), 2.0)
    return {"leaf": leaf, "grad": leaf.grad}


@item(since=(1, 13))
def conj_and_neg():
    base, real = torch.tensor([1 + 2j, 3 - 4j]), torch.tensor([1.0, -2.0])
    return [base, base.conj(), base[1:].conj(), torch._neg_view(base.conj()), real,
            torch._neg_view(real)]


@item(since=(1, 13))
def neg_of_conj_imag():
    """A float view with the negative bit, into a complex storage."""
    return torch.tensor([1 + 2j, 3 - 4j]).conj().imag


@item(since=(2, 6))
def conj_of_complex32():
    return torch.tensor([1 + 2j, 3 - 4j]).to(torch.complex32).conj()


@item()
def complex_views():
    base = torch.tensor([1 + 2j, 3 - 4j])
    return [base, base.clone()]


@item()
def sparse_coo():
    raw = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 4))
    hybrid = torch.sparse_coo_tensor([[1, 0]], [[1, 2], [3, 4]], (3, 2))
    return [raw, raw.coalesce(), hybrid, torch.sparse_coo_tensor((2, 3))]


@item(since=(1, 13))
def sparse_csr():
    return torch.eye(3).to_sparse_csr()


@item(since=(2, 6))
def sparse_compressed():
    dense = torch.arange(16.0).view(4, 4) % 3
    return [dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 2)),
            dense.to_sparse_bsc((2, 2)), torch.stack([dense, dense]).to_sparse_csr()]


@item()
def quantised_per_tensor():
    values = torch.arange(-3.0, 3.0, 0.5)
    return {kind: torch.quantize_per_tensor(values, 0.5, 2, getattr(torch, kind))
            for kind in ("qint8", "quint8", "qint32")}


@item()
def quantised_per_channel():
    values = torch.arange(6.0).view(2, 3)
    scales, zeros = torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([1, 2])
    return [torch.quantize_per_channel(values, scales, zeros, 0, torch.qint8),
            torch.quantize_per_channel(values.t(), scales, zeros, 1, torch.quint8)]


def float_qparams(kind):
    values = torch.arange(8.0).view(2, 4)
    scales, zeros = torch.tensor([0.5, 1.0]), torch.tensor([0.0, 1.5])
    return torch.quantize_per_channel(values, scales, zeros, 0, kind)


@item()
def quantised_float_qparams():
    return float_qparams(torch.quint8)


@item(since=(1, 13))
def quantised_4_bits():
    return float_qparams(torch.quint4x2)


@item(since=(1, 13))
def quantised_2_bits():
    return float_qparams(torch.quint2x4)


@item(since=(2, 6))
def nested_tensor():
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)])


@item(since=(2, 6))
def nested_tensor_jagged():
    rows = [torch.ones(2, 3), torch.zeros(1, 3)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


@item(since=(1, 13))
def meta_tensors():
    base = torch.empty(2, 3, device="meta")
    return [base, base.t(), torch.empty(1, dtype=torch.int8, device="meta", requires_grad=False),
            torch.ones(1)]


@item()
def storages_typed():
    return {name: of_dtype(name).storage() for name in CLASSIC}


@item(since=(1, 13))
def storages_of_quantised():
    names = ("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4")
    return [filled_with_bytes(getattr(torch, name + "Storage")(4)) for name in names]


def filled_with_bytes(storage):
    untyped = storage.untyped()
    for index in range(untyped.nbytes()):
        untyped[index] = index
    return storage


@item()
def storage_empty():
    return [torch.FloatStorage(0), torch.ByteStorage(0)]


@item(since=(1, 13))
def storages_untyped():
    plain = torch.UntypedStorage(5)
    plain.fill_(7)
    return [plain, torch.UntypedStorage(0)]


@item()
def storage_beside_its_tensor():
    tensor = torch.arange(4, dtype=torch.uint8)
    return [tensor, tensor.storage(), tensor[1:]]


@item(since=(2, 6))
def storage_untyped_beside_bytes():
    tensor = torch.arange(4, dtype=torch.uint8)
    return [tensor.untyped_storage(), tensor]


@item(since=(2, 6))
def one_storage_two_types():
    base = torch.arange(8, dtype=torch.uint8)
    return [base, base.view(torch.float8_e4m3fn), base[4:].view(torch.uint16)]


@item(since=(2, 6))
def one_storage_two_types_reversed():
    base = torch.arange(8, dtype=torch.uint8)
    return [base.view(torch.float8_e5m2), base, base.view(torch.uint64)]


@item()
def storage_like_a_descriptor():
    """Data that begin with the mark of a zip data descriptor confuse the writer's checksum."""
    return [torch.tensor([0x50, 0x4B, 0x07, 0x08, 1, 2, 3, 4, 5], dtype=torch.uint8),
            torch.tensor([0x50, 0x4B, 0x07, 0x08, 9, 9, 9], dtype=torch.uint8),
            torch.tensor([0x50, 0x4B, 0x07, 0x08, 1, 0, 0, 0], dtype=torch.uint8)]


@item()
def tensors_of_every_size():
    return [torch.arange(size, dtype=torch.int64).to(torch.uint8) for size in range(1, 201)]


@item()
def tensors_1500():
    return {"t%d" % i: torch.tensor([i]) for i in range(1500)}


def add_record_counts():
    """Record counts at which the hash table behind the serialization id grows."""
    for count in (5, 6, 7, 8, 9, 10, 11, 12, 13, 22, 23, 24, 25, 26, 52, 53, 54, 55, 120, 121, 122,
                  123, 250, 252, 254):
        add("records_%d" % count, lambda count=count: [torch.tensor([i]) for i in range(count)])


add_record_counts()


@item()
def tensor_large():
    return torch.arange(300000, dtype=torch.float32)


@item()
def small_objects():
    return {"size": torch.Size([2, 3]), "empty size": torch.Size([]), "cpu": torch.device("cpu"),
            "cuda": torch.device("cuda:1"), "cuda bare": torch.device("cuda"),
            "dtypes": [torch.float32, torch.float, torch.int64, torch.bool, torch.bfloat16],
            "layouts": [torch.strided, torch.sparse_coo],
            "schemes": [torch.per_tensor_affine, torch.per_channel_affine]}


@item(since=(1, 13))
def torch_version_object():
    return [torch.__version__, {"version": torch.__version__}]


@item(since=(2, 6))
def memory_formats():
    return [torch.channels_last, torch.contiguous_format, torch.channels_last]


@item(since=(2, 6))
def generators():
    return torch.Generator().manual_seed(5)


@item(since=(1, 13))
def return_types():
    return torch.max(torch.arange(4.0).view(2, 2), 0)


@item()
def functions_of_torch():
    return [torch.nn.functional.relu, torch.nn.functional.cross_entropy, torch.optim.SGD,
            torch.nn.Linear, torch.Tensor, torch.nn.Parameter]


@item()
def fake_cuda_tensors():
    first, second = torch.arange(3.0), torch.arange(4)
    fake_cuda.mark(first, "cuda:0")
    fake_cuda.mark(second, "cuda:1")
    return {"a": first, "b": first[1:], "c": second, "d": torch.ones(1), "e": second,
            "f": first.t()}


@item()
def fake_cuda_checkpoint():
    tensors = collections.OrderedDict()
    for index in range(300):
        tensors["module.layer%d.weight" % index] = fake_cuda.mark(torch.full((2,), 1.0), "cuda:0")
    return {"state_dict": tensors, "epoch": 3, "rng": torch.zeros(4, dtype=torch.uint8)}


@item()
def fake_cuda_parameters():
    parameter = torch.nn.Parameter(torch.ones(2))
    fake_cuda.mark(parameter.data, "cuda:3")
    return [parameter, parameter.data, fake_cuda.mark(torch.ones(1), "cuda:10")]


@item(since=(2, 6))
def dtensors():
    mesh = device_mesh()
    import torch.distributed.tensor as dt

    values = torch.arange(6.0).view(2, 3)
    sharded = dt.distribute_tensor(values, mesh, [dt.Shard(0)])
    whole = dt.distribute_tensor(values, mesh, [dt.Replicate()])
    return {"sharded": sharded, "replicated": whole, "plain": values}


@item(since=(2, 6))
def dtensor_state_dict():
    mesh = device_mesh()
    import torch.distributed.tensor as dt

    result = collections.OrderedDict()
    for name in ("module.a.weight", "module.b.weight"):
        result[name] = dt.distribute_tensor(torch.ones(4, 2), mesh, [dt.Shard(0)])
    return {"model": result, "step": 10}


def device_mesh():
    """A mesh of this one process, or Skip."""
    import torch.distributed as dist

    try:
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        from torch.distributed.device_mesh import init_device_mesh

        return init_device_mesh("cpu", (1,))
    except (RuntimeError, ImportError, AttributeError) as error:
        raise Skip("no process group: %s" % error)
