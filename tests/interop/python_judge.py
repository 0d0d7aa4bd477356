# SPDX-License-Identifier: Apache-2.0
"""The Python module beside torch.load(weights_only=True): python_judge.py LIST, with the package `ckpt` in this folder.

LIST has lines SOURCE<tab>REFERENCE: SOURCE is what `ckpt` opens, REFERENCE a file of torch.save with what has to come out
(the same, or what torch makes of a directory). Prints a line for what is wrong, and at the end the counts. Whatever torch
refuses must only not end the process.
"""

import collections
import math
import struct
import sys
import warnings

warnings.simplefilter("ignore")

import numpy  # noqa: E402
import torch  # noqa: E402

import ckpt  # noqa: E402

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
counts = collections.Counter()


class Different(Exception):
    pass


def require(condition, where, text, *values):
    if not condition:
        raise Different("%s: %s" % (where, text % tuple(repr(value)[:100] for value in values)))


def bits(tensor):
    """The values in a form that == compares exactly."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.reshape(-1).view(BITS[tensor.element_size()]).tolist() if tensor.numel() else []


class Judge:
    def __init__(self):
        self.partner, self.kept = {}, []

    def same_identity(self, wanted, found, where):
        for left, right in ((("w", wanted), ("f", found)), (("f", found), ("w", wanted))):
            require(self.partner.setdefault(left, right) == right, where, "shared on one side only")

    def compare(self, wanted, found, where="object"):
        """With a stack of its own, as objects may be nested deeper than Python calls."""
        todo, seen = [(wanted, found, where)], set()
        while todo:
            wanted, found, where = todo.pop()
            if isinstance(wanted, torch.Tensor):
                self.tensor(wanted, found, where)
                continue
            if isinstance(wanted, torch.storage.TypedStorage) or isinstance(wanted, torch.UntypedStorage):
                require(isinstance(found, ckpt.Storage), where, "no storage: %s", found)
                continue
            if isinstance(found, ckpt.Global) and type(wanted).__name__ == "StorageType":
                counts["classes"] += 1
                continue
            if isinstance(found, ckpt.Global) or isinstance(wanted, type):
                require(isinstance(found, ckpt.Global) and found.name in str(wanted), where, "%s, %s", wanted, found)
                continue
            if isinstance(wanted, torch.device):
                require(isinstance(found, ckpt.Opaque) and found.name == "device", where, "%s, %s", wanted, found)
                continue
            if type(wanted) is torch.Size:
                require(type(found) is ckpt.Size, where, "%s, %s", type(wanted), type(found))
            elif type(found) is ckpt.Opaque:
                counts["opaque"] += 1  # what a function of torch, or a class, makes: an exception, say
                continue
            else:
                require(type(wanted) is type(found), where, "types %s, %s", type(wanted), type(found))
            if isinstance(wanted, (dict, list, set)):
                self.same_identity(id(wanted), id(found), where)
            if isinstance(wanted, (dict, list, tuple)):
                if (id(wanted), id(found)) in seen:
                    continue
                seen.add((id(wanted), id(found)))
                self.kept.append((wanted, found))
                require(len(wanted) == len(found), where, "%s and %s items", len(wanted), len(found))
            if isinstance(wanted, dict):
                todo += [(a, b, "%s[%.40r]" % (where, key)) for (key, a), b in zip(wanted.items(), found.values())]
                todo += [(a, b, where + " (key)") for a, b in zip(wanted, found)]
                if hasattr(wanted, "__dict__"):
                    require(list(wanted.__dict__) == list(found.__dict__), where, "%s, %s", wanted.__dict__, found.__dict__)
                    todo += [(wanted.__dict__[key], found.__dict__[key], where + "." + key) for key in wanted.__dict__]
            elif isinstance(wanted, (list, tuple)):
                todo += [(a, b, "%s[%d]" % (where, i)) for i, (a, b) in enumerate(zip(wanted, found))]
            elif isinstance(wanted, float):
                require(struct.pack("d", wanted) == struct.pack("d", found) or math.isnan(wanted) and math.isnan(found),
                        where, "%s, %s", wanted, found)
            elif isinstance(wanted, complex):
                require(repr(wanted) == repr(found), where, "%s, %s", wanted, found)
            else:
                require(wanted == found, where, "%s, %s", wanted, found)

    def tensor(self, wanted, found, where):
        require(isinstance(found, (ckpt.Tensor, ckpt.Values)), where, "no tensor: %s", found)
        counts["tensors"] += 1
        if type(wanted) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer if hasattr(torch.nn, "Buffer") else torch.Tensor):
            require(found.class_name == type(wanted).__name__ or found.layout == "wrapper", where, "%s, %s", type(wanted), found)
            counts["subclasses"] += 1
            return
        require("torch." + found.dtype == str(wanted.dtype), where, "%s, %s", wanted.dtype, found.dtype)
        if wanted.is_nested:
            counts["nested"] += 1
            return
        require(tuple(wanted.shape) == found.shape, where, "%s, %s", wanted.shape, found.shape)
        if isinstance(found, ckpt.Tensor):
            require(found.requires_grad == wanted.requires_grad, where, "requires_grad is %s", found.requires_grad)
            require((found.class_name == "Parameter") == (type(wanted) is torch.nn.Parameter), where, "%s", found.class_name)
        if wanted.device.type == "meta":
            require(found.device == "meta", where, "%s, %s", wanted.device, found.device)
            counts["meta"] += 1
            return
        if wanted.layout is torch.strided and not wanted.is_quantized:
            self.strided(wanted, found, where)
        if wanted.dtype in (torch.quint4x2, torch.quint2x4):  # which nothing of torch makes of their bits
            counts["packed"] += 1
            return
        made = found.torch()
        require(made.layout is wanted.layout and made.dtype == wanted.dtype, where, "%s %s", made.layout, made.dtype)
        if wanted.is_quantized:
            require(bits(made.int_repr()) == bits(wanted.int_repr()) and made.qscheme() == wanted.qscheme(), where, "quantized")
            wanted, made = wanted.dequantize(), made.dequantize()
        elif wanted.layout is not torch.strided:
            wanted, made = wanted.detach().to_dense(), made.to_dense()
        require(bits(made) == bits(wanted), where, "values %s, %s", made, wanted)

    def strided(self, wanted, found, where):
        if isinstance(found, ckpt.Tensor):
            require(found.stride() == wanted.stride(), where, "strides %s, %s", wanted.stride(), found.stride())
            require(found.storage_offset() == wanted.storage_offset(), where, "offset %s", found.storage_offset())
            storage = wanted.untyped_storage()
            require(found.storage.nbytes == storage.nbytes(), where, "bytes of the storage: %s, %s", storage.nbytes(), found.storage.nbytes)
            if storage.nbytes():  # torch makes a new one each time if it is empty
                self.same_identity(("s", storage._cdata), ("s", found.storage.index), where)
            self.kept.append((wanted, storage))
        plain = wanted.detach().resolve_conj().resolve_neg()
        if str(wanted.dtype)[6:] in ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool",
                                     "complex64", "complex128", "uint16", "uint32", "uint64"):
            array = found.numpy()
            require(array.tobytes() == plain.contiguous().numpy().tobytes() and array.shape == tuple(wanted.shape), where, "numpy")
            again = numpy.asarray(found)  # which may take another way: a memoryview
            require(again.dtype == array.dtype and again.shape == array.shape and again.tobytes() == array.tobytes(), where, "asarray")
            counts["arrays"] += 1
            if wanted.dim() and isinstance(found, ckpt.Tensor):
                part = found[1:, ..., ::2] if wanted.dim() > 1 else found[::-2]
                own = plain.numpy()[1:, ..., ::2] if wanted.dim() > 1 else plain.numpy()[::-2]
                require(part.shape == own.shape and part.tobytes() == own.tobytes(), where, "a part")
                counts["parts"] += 1


def check(source, reference):
    try:
        wanted = torch.load(reference, weights_only=True)
    except BaseException:
        counts["refused by torch"] += 1
        try:
            ckpt.load(source)
        except ckpt.Error:
            pass
        return None
    try:
        found = ckpt.load(source)
        Judge().compare(wanted, found)
    except (Different, ckpt.Error) as error:
        return str(error)
    counts["equal"] += 1
    return None


def main():
    torch.set_num_threads(1)
    wrong = 0
    with open(sys.argv[1], encoding="utf-8") as stream:
        pairs = [line.rstrip("\n").split("\t") for line in stream]
    for source, reference in pairs:
        try:
            text = check(source, reference)
        except Exception as error:
            import traceback
            text = "%s: %s %s" % (type(error).__name__, error, traceback.format_exc()[-600:])
        if text:
            wrong += 1
            print("BAD\t%s: %s" % (source, text), flush=True)
    print("DONE\t%d\t%d\t%s" % (counts["equal"], wrong, ", ".join("%d %s" % (n, name) for name, n in sorted(counts.items()))))


if __name__ == "__main__":
    main()
