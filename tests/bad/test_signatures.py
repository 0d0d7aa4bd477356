# SPDX-License-Identifier: Apache-2.0
"""What people take for a checkpoint: every kind is named in the message."""

import io
import pickle
import struct
import tarfile
import zipfile

import files

NOT_TORCH = ", not a torch checkpoint"
LFS = (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 +
       b"\nsize 44730000\n")
BARE = "is a bare pickle, made by pickle.dump, not by torch.save; 'ckpt dis' shows what is in it"
HTML = "is an HTML page: the server sent a web page (an error, a login) instead of the model"
XML = "is an XML document: the server sent an error instead of the model"
JSON = "is JSON text: a config, an index of shards, or an error message, not the model"
SAFETENSORS = "+0x%x: the tensors take 4 bytes, the file has 3 after its header: it is cut short"


def safetensors(header_len):
    """Without its last byte: whatever its length looks like, it is read as what it is."""
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return struct.pack("<Q", header_len) + header.ljust(header_len) + b"\0\0\0"


def tar(*names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return out.getvalue()


def zipped(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    return out.getvalue()


# (what, bytes, message)
TABLE = [
    ("nothing", b"", "is empty: a download or a save was interrupted"),
    ("zeros", bytes(10000), "begins with 4096 zero bytes: space was reserved, but the download or the "
                            "save never filled it"),
    ("few zeros", bytes(10), "begins with 10 zero bytes: space was reserved, but the download or the "
                             "save never filled it"),
    ("Git LFS pointer", LFS, "is a Git LFS pointer, the model itself (44730000 bytes, sha256 " +
     "4d7a" * 16 + ") was not fetched; run 'git lfs pull'"),
    ("cut Git LFS pointer", LFS[:60], "is a Git LFS pointer, the model itself (? bytes, sha256 "
                                      "4d7a4d) was not fetched; run 'git lfs pull'"),
    ("HDF5", b"\x89HDF\r\n\x1a\n" + bytes(100), "is an HDF5 file (Keras .h5)" + NOT_TORCH),
    ("NumPy", b"\x93NUMPY\x01\x00", "is a NumPy .npy array" + NOT_TORCH),
    ("GGUF", b"GGUF\x03\0\0\0", "is a GGUF model (llama.cpp)" + NOT_TORCH),
    ("GGML", b"lmgg\x01\0\0\0", "is an old GGML model" + NOT_TORCH),
    ("GGMF", b"fmgg\x01\0\0\0", "is an old GGML model" + NOT_TORCH),
    ("GGJT", b"tjgg\x01\0\0\0", "is an old GGML model" + NOT_TORCH),
    ("pickle of protocol 0", pickle.dumps({"a": [1, 2.5]}, 0), "is a bare pickle of protocol 0 or 1, made by pickle.dump, not by "
     "torch.save; 'ckpt dis' shows what is in it"),
    ("text that begins as one", b"N(0, 1) is no pickle.", "is a short text, not a checkpoint: 'N(0, 1) is no pickle.'"),
    ("an answer in words", b"Entry not found\n", "is a short text, not a checkpoint: 'Entry not found\\n'"),
    ("a long text", b"Entry not found " * 40, "is not a torch checkpoint: it begins with 'Entry not found '"),
    ("git-annex pointer", b"/annex/objects/SHA256E-s4--" + b"4d7a" * 16 + b".pt\n",
     "is a git-annex pointer, the model itself was not fetched; run 'git annex get'"),
    ("git-annex link", b"../.git/annex/objects/xx/SHA256E-s4--" + b"4d7a" * 16,
     "is a git-annex pointer, the model itself was not fetched; run 'git annex get'"),
    ("gzip", b"\x1f\x8b\x08\0", "is compressed with gzip; unpack it first"),
    ("bzip2", b"BZh91AY", "is compressed with bzip2; unpack it first"),
    ("xz", b"\xfd7zXZ\0\0", "is compressed with xz; unpack it first"),
    ("zstd", b"\x28\xb5\x2f\xfd\0", "is compressed with zstd; unpack it first"),
    ("lz4", b"\x04\x22\x4d\x18\0", "is compressed with lz4; unpack it first"),
    ("7z", b"7z\xbc\xaf\x27\x1c\0", "is a 7-Zip archive; unpack it first"),
    ("rar", b"Rar!\x1a\x07\0", "is a RAR archive; unpack it first"),
    ("HTML", b"<!DOCTYPE html><html>", HTML),
    ("HTML with a mark and blanks", b"\xef\xbb\xbf \n\t<HTML>", HTML),
    ("lower-case doctype", b"<!doctype HTML>", HTML),
    ("XML", b"<?xml version='1.0'?><Error>", XML),
    ("S3 error", b"<Error><Code>NoSuchKey</Code></Error>", XML),
    ("JSON object", b'{"error": "not found"}', JSON),
    ("JSON list", b' [1, 2]', JSON),
    ("safetensors", safetensors(64), SAFETENSORS % (8 + 64 + 3)),
    ("safetensors whose length looks like text", safetensors(0x7B20), SAFETENSORS % (8 + 0x7B20 + 3)),
    ("safetensors whose length looks like a list", safetensors(0x5B20), SAFETENSORS % (8 + 0x5B20 + 3)),
    ("safetensors whose length looks like a pickle", safetensors(0x0280), SAFETENSORS % (8 + 0x0280 + 3)),
    ("safetensors, cut, whose length looks like an archive", b"PK\3\4\0\0\0\0{\"a\":",
     "+0x0: the header is said to have 67324752 bytes, the file has 5 after their number: it is cut short"),
    ("tar", tar("a.bin"), "is a tar archive; unpack it first (many .pth.tar files are not tar archives, "
                          "this is one)"),
    ("ONNX", b"\x08\x07\x12\x07pytorch\x1a\x051.13", "is an ONNX model" + NOT_TORCH),
    ("Lua Torch7, number", b"\x03\0\0\0\x01\0\0\0rest", "is a Lua Torch7 file (.t7), not a PyTorch checkpoint"),
    ("Lua Torch7", b"\x04\0\0\0\x01\0\0\0\x03\0\0\0V 1", "is a Lua Torch7 file (.t7), not a PyTorch checkpoint"),
    ("ELF", b"\x7fELF\x02\x01", "is an executable (ELF)" + NOT_TORCH),
    ("Windows executable", b"MZ\x90\0", "is a Windows executable" + NOT_TORCH),
    ("macOS resource fork", b"\0\x05\x16\x07\0\x02", "is a macOS resource file (._name), not the "
                                                    "checkpoint beside it"),
    ("TensorFlow checkpoint", b"\0\0\x10something" + bytes(40) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb",
     "is a TensorFlow checkpoint" + NOT_TORCH),
    ("PYTORCH1", b"PYTORCH1\0\0", "is a file of a torch 1.0 pre-release, a form that was given up"),
    ("pickle", pickle.dumps({"a": 1}, 2), BARE),
    ("pickle, protocol 4", pickle.dumps({"a": 1}, 4), BARE),
    ("pickle with tensors", b"\x80\x02ctorch.storage\n_load_from_bytes\nq\0.",
     "is a bare pickle with tensors, made by pickle.dump, not by torch.save"),
    ("DCP index", b"\x80\x02ctorch.distributed.checkpoint.metadata\nMetadata\nq\0)\x81.",
     "is the .metadata index of a distributed checkpoint (DCP), not a checkpoint file by itself"),
    ("empty zip", b"PK\x05\x06" + bytes(18), "is an empty zip archive"),
    ("npz", zipped("a.npy", "b.npy"), "is a NumPy .npz archive" + NOT_TORCH),
    ("Keras", zipped("config.json", "model.weights.h5"), "is a Keras model" + NOT_TORCH),
    ("zip of checkpoints", zipped("a/model.pt"), "is a zip archive with model files inside, not one "
                                                 "itself: name one of them as ARCHIVE::a/model.pt"),
    ("zip of safetensors", zipped("config.json", "model.safetensors"),
     "is a zip archive with model files inside, not one itself: name one of them as ARCHIVE::model.safetensors"),
    ("other zip", zipped("word/document.xml"),
     "is a zip archive, but not one of torch, which has a folder with 'data.pkl' in it; its first "
     "record is 'word/document.xml'"),
    ("text", b"hello, world\n", "is a short text, not a checkpoint: 'hello, world\\n'"),
    ("escape sequences", b"\x1b[31mred\x1b[0m",
     "is not a torch checkpoint: it begins with '\\x1b[31mred\\x1b[0m'"),
    ("one byte", b"P", "is not a torch checkpoint: it begins with 'P'"),
]


class Signatures(files.BadFileTest):
    def test_every_kind_is_named(self):
        for what, data, message in TABLE:
            with self.subTest(what):
                self.assert_refused(data, message)

    def test_info_says_the_same(self):
        self.assert_refused(b"GGUF\x03\0\0\0", "is a GGUF model (llama.cpp)" + NOT_TORCH, "info")


files.main()
