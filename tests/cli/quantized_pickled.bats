# SPDX-License-Identifier: Apache-2.0
# Quantized weights in torch.save files, made without torch. What torch itself makes of them is for tests/interop/quantized_torch.py.
load common

# FILE SCRIPT: a torch.save file of `out`, which SCRIPT fills with tensor(dtype, shape, data) and parameter(tensor)
pickled() {
	python3 -B - "$@" <<'PY'
import math
import pickle
import struct
import sys
import types
import zipfile

CLASSES = {"float32": "FloatStorage", "int32": "IntStorage", "int8": "CharStorage", "uint8": "ByteStorage", "float16": "HalfStorage"}
for name in ("torch", "torch._utils", "torch.storage", "torch.nn", "torchao", "torchao.quantization"):
    sys.modules[name] = types.ModuleType(name)


def told(module, name, kind=type):
    made = type(name, (), {}) if kind is type else (lambda *args: None)
    made.__module__, made.__name__, made.__qualname__ = module, name, name
    setattr(sys.modules[module], name, made)
    return made


storages = {name: told("torch", name) for name in CLASSES.values()}
untyped = told("torch.storage", "UntypedStorage")
rebuild = told("torch._utils", "_rebuild_tensor_v2", None)
rebuild_v3 = told("torch._utils", "_rebuild_tensor_v3", None)
rebuild_parameter = told("torch._utils", "_rebuild_parameter", None)
float8 = told("torch", "float8_e4m3fn", None)
files = []


class Storage:
    def __init__(self, dtype, data):
        self.dtype, self.data, self.key = dtype, data, str(len(files))
        files.append(self)


class Made:
    def __init__(self, func, *args):
        self.func, self.args = func, args

    def __reduce__(self):
        return self.func, self.args


def tensor(dtype, shape, data, metadata=None):
    storage = data if isinstance(data, Storage) else Storage(dtype, data)
    stride = [math.prod(shape[at + 1:]) for at in range(len(shape))]
    extra = [metadata] if metadata else []
    if dtype in CLASSES:
        return Made(rebuild, storage, 0, tuple(shape), tuple(stride), False, {}, *extra)
    return Made(rebuild_v3, storage, 0, tuple(shape), tuple(stride), False, {}, float8, *extra)


def parameter(t):
    return Made(rebuild_parameter, t, False, {})


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


class Pickler(pickle._Pickler):
    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        known = CLASSES.get(obj.dtype)
        count = len(obj.data) // (4 if obj.dtype in ("float32", "int32") else 2 if obj.dtype == "float16" else 1)
        return ("storage", storages[known] if known else untyped, obj.key, "cpu", count)

    def save_global(self, obj, name=None):
        if self.proto < 4 and getattr(obj, "__module__", "").startswith("torch"):
            self.write(pickle.GLOBAL + ("%s\n%s\n" % (obj.__module__, obj.__name__)).encode())
            self.memoize(obj)
            return
        super().save_global(obj, name)

    dispatch = dict(pickle._Pickler.dispatch)
    dispatch[types.FunctionType] = save_global
    dispatch[type] = save_global


out = {}
exec(sys.argv[2])
import io
stream = io.BytesIO()
Pickler(stream, 2).dump(out)
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("x/data.pkl", stream.getvalue())
    archive.writestr("x/byteorder", "little")
    for one in files:
        archive.writestr("x/data/" + one.key, one.data)
    archive.writestr("x/version", "3\n")
PY
}

@test "codes that are one object or storage, and have other scales under each name, become weights of their own" {
	pickled fp8.pt '
q = tensor("float8", [1, 2], b"\x38\x40")
again = tensor("float8", [1, 2], q.args[0])
one, two = tensor("float32", [1, 1], floats(2)), tensor("float32", [1, 1], floats(8))
out = {"a.weight": q, "a.weight_scale_inv": one, "b.weight": q, "b.weight_scale_inv": two, "c.weight": again, "c.weight_scale_inv": two,
       "d.weight": q, "d.weight_scale_inv": two, "e.weight": q, "e.weight_scale_inv": one, 0: {"weight": q, "weight_scale_inv": tensor("float32", [1, 1], floats(16))}}
p = parameter(tensor("float8", [1, 2], b"\x38\x40"))
out.update({"p.weight": p, "p.weight_scale_inv": one, "r.weight": p, "r.weight_scale_inv": two})
'
	ckpt cast --dequantize f32 fp8.pt out.pt; want 0
	for name in a b c d e 0 p r; do
		case $name in a | e | p) wanted='[[2. 4.]]' ;; 0) wanted='[[16. 32.]]' ;; *) wanted='[[ 8. 16.]]' ;; esac
		ckpt cat -q --dequantize fp8.pt "$name.weight"; want 0
		[ "$output" = "$wanted" ] || { echo "$name: $output"; false; }
		ckpt cat -q out.pt "$name.weight"; want 0
		[ "$output" = "$wanted" ] || { echo "$name: $output"; false; }
	done
	ckpt verify -q out.pt; want 0
	ckpt ls out.pt; want 0
	[[ $output = *"8 tensors, 10 elements, "*" in 5 storages" ]]
}

@test "of GPTQ and bitsandbytes, too, all parts have to be the same" {
	pickled gptq.pt '
q, scales = tensor("int32", [1, 8], b"\x21" * 32), tensor("float16", [1, 8], b"\x00\x3c" * 8)
out = {"a.qweight": q, "a.scales": scales, "a.qzeros": tensor("int32", [1, 1], bytes(4)), "b.qweight": q, "b.scales": scales,
       "b.qzeros": tensor("int32", [1, 1], b"\x11" * 4), "c.qweight": q, "c.scales": tensor("float16", [1, 8], b"\x00\x40" * 8), "c.qzeros": tensor("int32", [1, 1], bytes(4))}
'
	pickled bnb.pt '
q = tensor("int8", [1, 2], b"\x7f\x81")
out = {"a.weight": q, "a.SCB": tensor("float32", [1], floats(127)), "b.weight": q, "b.SCB": tensor("float32", [1], floats(254))}
'
	ckpt cast --dequantize f32 --as gptq gptq.pt out.pt; want 0
	for row in 'a:[0. 1. 0. 1. 0. 1. 0. 1.]' 'b:[-1.  0. -1.  0. -1.  0. -1.  0.]' 'c:[0. 2. 0. 2. 0. 2. 0. 2.]'; do
		ckpt cat -q out.pt "${row%%:*}.weight[0]"; want 0
		[ "$output" = "${row#*:}" ]
	done
	ckpt cast -f --dequantize f32 --as bitsandbytes bnb.pt out.pt; want 0
	ckpt cat -q out.pt b.weight; want 0
	[ "$output" = '[[ 254. -254.]]' ]
	ckpt cat -q out.pt a.weight; want 0
	[ "$output" = '[[ 127. -127.]]' ]
}

@test "the negative bit of a scale turns its sign" {
	pickled fp8.pt '
q = tensor("float8", [1, 2], b"\x38\x40")
scale = tensor("float32", [1, 1], floats(2))
out = {"a.weight": q, "a.weight_scale_inv": tensor("float32", [1, 1], scale.args[0], {"neg": True}), "b.weight": q, "b.weight_scale_inv": scale}
'
	ckpt cast --dequantize f32 fp8.pt out.pt; want 0
	ckpt cat -q out.pt a.weight; want 0
	[ "$output" = '[[-2. -4.]]' ]
	ckpt cat -q out.pt b.weight; want 0
	[ "$output" = '[[2. 4.]]' ]
	pickled codes.pt '
out = {"a.weight": tensor("float8", [1, 2], b"\x38\x40", {"neg": True}), "a.weight_scale_inv": tensor("float32", [1, 1], floats(2))}
'
	ckpt cast --dequantize f32 codes.pt out2.pt
	[[ $status = 2 && $stderr = *"'a.weight' is float8_e4m3fn [1, 2]: its negative bit is set"* && ! -e out2.pt ]]
}
