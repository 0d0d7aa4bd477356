# SPDX-License-Identifier: Apache-2.0
"""Write dcp_tensor_cases.h: the data.pkl that torch.save writes for plain tensors (made by torch 2.14).

    python3 dcp_tensor_cases.py > dcp_tensor_cases.h
"""

import io
import warnings
import zipfile

import torch

warnings.simplefilter("ignore")

DTYPES = ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex128 complex64 complex32 "
          "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu uint16 uint32 uint64").split()
SHAPES = ((), (1,), (3,), (255,), (256,), (2, 3), (1, 1), (2, 1, 4), (1, 2, 3, 4), (2, 1, 2, 1, 2), (0,), (0, 3), (3, 0),
          (2, 0, 5), (70000,), (65535,), (65536,))


def case(dtype, shape):
    stream = io.BytesIO()
    torch.save(torch.empty(shape, dtype=getattr(torch, dtype)), stream)
    with zipfile.ZipFile(stream) as archive:
        pickle = archive.read("archive/data.pkl")
    octets = "".join("\\x%02x" % octet for octet in pickle)
    print('\t{ CKPT_DTYPE_%s, %d, { %s }, %d,\n\t  "%s" },' % (
        dtype.upper(), len(shape), ", ".join(str(size) for size in shape) or "0", len(pickle), octets))


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */\n/* Written by dcp_tensor_cases.py; do not edit. clang-format off */\n")
    print("static const struct {\n\tenum ckpt_dtype dtype;\n\tuint32_t ndim;\n\tuint64_t shape[5];\n\tsize_t len;"
          "\n\tconst char *pickle;\n} tensor_cases[] = {")
    for dtype in DTYPES:
        case(dtype, (2, 3))
    for shape in SHAPES:
        case("float32", shape)
    case("uint16", ())
    case("uint64", (300, 300))
    print("};")


if __name__ == "__main__":
    main()
