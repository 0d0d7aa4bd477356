# SPDX-License-Identifier: Apache-2.0
"""Files as torch.save wrote them before 0.1.10, made without torch: a tar archive of sys_info, pickle, tensors, storages.

Written after torch/serialization.py of 0.1.6 (save) and legacy_load() of today. No class is needed to write its name.
"""

import io
import pickle
import struct
import tarfile

FORMATS = {"ByteStorage": "B", "CharStorage": "b", "ShortStorage": "h", "IntStorage": "i", "LongStorage": "q",
           "HalfStorage": "e", "FloatStorage": "f", "DoubleStorage": "d"}


class Global:
    def __init__(self, module, name):
        self.module, self.name = module, name


class Text(bytes):
    """A str of Python 2."""


class Ref:
    """A tensor or a storage by its key, or (class, file, source)."""

    def __init__(self, pid):
        self.pid = pid


class New:
    """An object made by cls.__new__(cls, *arguments), in the words of the protocol, or CALLED as cls(*arguments)."""

    def __init__(self, cls, state=None, arguments=(), called=False):
        self.cls, self.state, self.arguments, self.called = cls, state, arguments, called


class Pickler(pickle._Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, Ref):
            return obj.pid if isinstance(obj.pid, tuple) else str(obj.pid)
        return None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Global):
            self.write(b"c%s\n%s\n" % (obj.module.encode(), obj.name.encode()))
        elif isinstance(obj, Text):
            self.save_text(obj)
        elif isinstance(obj, New):
            self.save_new(obj)
        else:
            super().save(obj, save_persistent_id)

    def save_text(self, obj):
        if id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
            return
        if self.proto == 0:
            self.write(b"S%s\n" % repr(obj.decode("latin-1")).encode("ascii"))
        elif len(obj) < 256:
            self.write(b"U" + bytes([len(obj)]) + obj)
        else:
            self.write(b"T" + struct.pack("<I", len(obj)) + obj)
        self.memoize(obj)

    def save_new(self, obj):
        if id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
            return
        if obj.called:
            self.save(obj.cls)
            self.save(obj.arguments)
            self.write(b"R")
        elif self.proto < 2:
            self.save(Global("copy_reg", "__newobj__"))
            self.save((obj.cls,) + obj.arguments)
            self.write(b"R")
        else:
            self.save(obj.cls)
            self.save(obj.arguments)
            self.write(b"\x81")
        self.memoize(obj)
        if obj.state is not None:
            self.save(obj.state)
            self.write(b"b")


def dumps(obj, protocol):
    out = io.BytesIO()
    Pickler(out, protocol).dump(obj)
    return out.getvalue()


class Storage:
    def __init__(self, key, kind, values, location="cpu"):
        self.key, self.kind, self.location, self.numel = key, kind, location, len(values)
        self.data = struct.pack("<%d%s" % (len(values), FORMATS[kind]), *values)


class Tensor:
    """STORAGE: its key, or None."""

    def __init__(self, key, storage, shape, stride=None, offset=0, kind="FloatTensor"):
        self.key, self.storage, self.shape, self.offset, self.kind = key, storage, tuple(shape), offset, kind
        if stride is None:
            stride, step = [], 1
            for size in reversed(self.shape):
                stride.insert(0, step)
                step *= size
        self.stride = tuple(stride)


def storages_member(storages, views, protocol):
    out = [dumps(len(storages), protocol)]
    for s in storages:
        out += [dumps((s.key, s.location, Global("torch", s.kind)), protocol), struct.pack("<q", s.numel), s.data]
    return b"".join(out) + dumps(list(views), protocol)


def tensors_member(tensors, protocol):
    out = [dumps(len(tensors), protocol)]
    for t in tensors:
        out += [dumps((t.key, t.storage, Global("torch", t.kind)), protocol),
                struct.pack("<q%dq" % (2 * len(t.shape) + 1), len(t.shape), *t.shape, *t.stride, t.offset)]
    return b"".join(out)


def sys_info(protocol, little=True):
    return dumps({"protocol_version": 1000, "little_endian": little,
                  "type_sizes": {"short": 2, "int": 4, "long": 8}}, protocol)


def archive(members, form=tarfile.PAX_FORMAT, mtime=1480000000.25):
    """(name, bytes) in order. A time that is no whole number has pax headers, as Python 3 wrote them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def members(obj, storages=(), tensors=(), views=(), protocol=2, little=True):
    return [("sys_info", sys_info(protocol, little)), ("pickle", dumps(obj, protocol)),
            ("tensors", tensors_member(tensors, protocol)), ("storages", storages_member(storages, views, protocol))]


def save(path, *arguments, **options):
    with open(path, "wb") as stream:
        stream.write(archive(members(*arguments, **options)))
