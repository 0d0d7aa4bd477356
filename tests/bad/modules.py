# SPDX-License-Identifier: Apache-2.0
"""Makes modules that were pickled whole, and TorchScript archives, byte by byte."""

from files import archive, glob, pickled, tensor, text

DATA = [("data/%d" % i, bytes([i]) * 16) for i in range(4)]
NO_CONSTANTS = pickled(b")")


def members(pairs):
    return b"}(" + b"".join(text(name) + value for name, value in pairs) + b"u"


def script(name, pairs, module="__torch__", memo=b""):
    """An object as torch's C++ pickler writes it."""
    return glob(module, name) + b")\x81" + memo + members(pairs) + b"b"


def whole(parameters=(), buffers=(), modules=(), others=(), name="Net"):
    """A torch.nn.Module as Python's pickler writes it."""
    return script(name, [("training", b"\x88"), ("_parameters", members(parameters)), ("_buffers", members(buffers)),
                         ("_modules", members(modules)), *others], "user.code")


def source(name, parameters=(), buffers=(), base="(Module)"):
    lists = ["[%s]" % "".join('"%s", ' % n for n in names) for names in (parameters, buffers)]
    return "class %s%s:\n  __parameters__ = %s\n  __buffers__ = %s\n  training : bool\n" % (name, base, *lists)


def records(data, code="", constants=NO_CONSTANTS, more=(), left_out=()):
    found = [*DATA, ("data.pkl", data), ("code/__torch__.py", code.encode()), ("constants.pkl", constants), *more,
             ("version", b"3\n")]
    return [record for record in found if record[0] not in left_out]


def torch_script(*arguments, **options):
    return archive(records(*arguments, **options))


def parameter(key):
    return (glob("torch._utils", "_rebuild_parameter") + b"(" + tensor(key) + b"\x88" +
            glob("collections", "OrderedDict") + b")RtR")


NET = script("Net", [("weight", tensor("0")), ("training", b"\x88"), ("mean", tensor("1")), ("plain", tensor("2")),
                     ("sub", script("Sub", [("bias", tensor("3"))]))])
NET_CODE = source("Net", ["weight"], ["mean"]) + source("Sub", ["bias"])
