# SPDX-License-Identifier: Apache-2.0
"""No file makes any function of the module run, import or look up anything; and no file ends the process."""

import os
import subprocess
import sys

import pytest

import ckpt

HERE = os.path.dirname(os.path.abspath(__file__))

# Events of Python's audit hooks: whatever is called from a file would have to pass one of them.
CHILD = r"""
import os, sys, threading, struct, reprlib, collections, operator
import ckpt, ckpt._load, ckpt._repr
try:
    import numpy, ckpt._numpy
except ImportError:
    pass
found, armed = [], False
HARMLESS = {"builtins.id", "object.__getattr__", "sys._getframe", "gc.get_objects"}

def hook(event, args):
    if armed and event not in HARMLESS:
        found.append((event, repr(args)[:200]))

files = [os.path.join(sys.argv[1], name) for name in sorted(os.listdir(sys.argv[1]))[::int(sys.argv[2])]]
sys.addaudithook(hook)
loaded = refused = 0
for path in files:
    modules = set(sys.modules)
    for how in ("opaque", "plain", "error"):
        armed = True
        try:
            value = ckpt.load(path, objects=how)
            with ckpt.open(path) as f:
                f.tree(), list(f), f.value(""), f.metadata(), f.info
                for tensor in f.tensors()[:20]:
                    try:
                        if tensor.numel() < 1 << 20:  # some claim terabytes
                            tensor.memoryview()
                        tensor.storage and tensor.storage.nbytes
                    except (ckpt.Error, MemoryError):
                        pass
            loaded += 1
        except (ckpt.Error, MemoryError, RecursionError):
            refused += 1
        armed = False
        value = None
    if found or set(sys.modules) != modules:
        print(path, found[:5], set(sys.modules) - modules)
        sys.exit(1)
print(len(files), loaded, refused)
"""


# What writes and reports: it opens files, so only events that code of a file would cause are looked for.
WRITERS = r"""
import os, sys
import ckpt, ckpt._load, ckpt._save, ckpt._reports, ckpt._convert, ckpt._html, ckpt._dlpack, tempfile, json, zlib, traceback
try:
    import numpy, ckpt._numpy
except ImportError:
    pass
found, armed = [], False
CODE = {"compile", "exec", "import", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "marshal.loads"}

def hook(event, args):
    if armed and event in CODE:
        found.append((event, repr(args)[:200]))

def save(value, **options):
    ckpt.save(value, out, no_sync=True, **options)

def edit(f):
    f.strip_module().rename("s/a/b/").remap("cpu").cast("bf16").compact().save(out, overwrite=True, no_sync=True)

out = os.path.join(sys.argv[2], "out.pt")
calls = [
    lambda path: save(ckpt.load(path)), lambda path: save(ckpt.load(path, objects="plain"), profile="2.0"),
    lambda path: edit(ckpt.open(path)), lambda path: ckpt.open(path).sanitize().save(out, overwrite=True, no_sync=True),
    lambda path: ckpt.open(path)._repr_html_(), lambda path: [tensor._repr_html_() for tensor in ckpt.open(path).tensors()[:5]],
    lambda path: ckpt.verify(path), lambda path: ckpt.scan(path), lambda path: ckpt.why(path), lambda path: ckpt.repair(path),
    lambda path: ckpt.diff(path, path, quick=True), lambda path: ckpt.convert(path, out, overwrite=True, no_sync=True),
]
first = os.path.join(sys.argv[2], "first.pt")
ckpt.save({"a": 1}, first)
for call in calls:
    call(first)  # imports what it needs
sys.addaudithook(hook)
done = refused = 0
files = [os.path.join(sys.argv[1], name) for name in sorted(os.listdir(sys.argv[1]))]
for path in files[::int(sys.argv[3])]:
    modules = set(sys.modules)
    for number, call in enumerate(calls):
        armed = True
        try:
            call(path)
            done += 1
        except (ckpt.Error, MemoryError):
            refused += 1
        except BaseException as error:
            armed = False
            print(path, number, repr(error))
            traceback.print_exc()
            sys.exit(1)
        armed = False
        if found or set(sys.modules) != modules:
            print(path, number, found[:5], set(sys.modules) - modules)
            sys.exit(1)
print(len(files), done, refused)
"""


def one_of(few):
    """All hostile files take minutes, and with sanitizers a tenth does."""
    return "1" if os.environ.get("CKPT_TEST_LONG") == "1" else str(few * 8 if os.environ.get("CKPT_SANITIZED") == "1" else few)


def run(folder, step):
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", CHILD, str(folder), step], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


def test_hostile_files_run_nothing(tmp_path):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scan"))
    import hostile

    (tmp_path / "files").mkdir()
    hostile.write(str(tmp_path / "files"))
    done = run(tmp_path / "files", one_of(5))
    assert done.returncode == 0, done.stdout[-3000:]
    count, loaded, refused = map(int, done.stdout.split())
    assert count > 100 and loaded > 50 and refused > 50


def test_hostile_files_run_nothing_where_they_are_written_again(tmp_path):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scan"))
    import hostile

    for name in ("files", "out"):
        (tmp_path / name).mkdir()
    hostile.write(str(tmp_path / "files"))
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", WRITERS, str(tmp_path / "files"), str(tmp_path / "out"), one_of(16)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    count, written, refused = map(int, done.stdout.split())
    assert count > 100 and written > 50 and refused > 50


@pytest.mark.parametrize("shape", [(1 << 62, 4), (1,) * 65])
def test_shapes_that_numpy_has_no_arrays_of_are_an_error(shape):
    pytest.importorskip("numpy")
    from ckpt._values import to_numpy

    class Claims:
        def info(self):
            return {"reads": "float32", "itemsize": 4, "shape": shape, "numel": 1}

    with pytest.raises(ckpt.Error, match="numpy has no array of this shape"):
        to_numpy(Claims())


def test_the_canary_would_be_seen(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"")
    done = subprocess.run([sys.executable, "-c", CHILD.replace("value = ckpt.load", "os.makedirs(path + '.d', exist_ok=True); value = ckpt.load"),
                           str(tmp_path), "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and "os.mkdir" in done.stdout


def everything(path, out):
    """What reads and writes PATH; only ckpt.Error says that it cannot."""
    for call in (lambda: repr(ckpt.load(path)), lambda: ckpt.load(path, objects="plain"), lambda: ckpt.save(ckpt.load(path), out, no_sync=True),
                 lambda: [t.storage and (t.storage.key, t.storage.device) for t in ckpt.open(path).tensors()], lambda: ckpt.open(path).tree(),
                 lambda: [t.memoryview() for t in ckpt.open(path).tensors() if t.layout == "strided"], lambda: ckpt.open(path)._repr_html_(),
                 lambda: [t._open().info() for t in ckpt.open(path).tensors()], lambda: ckpt.open(path).info, lambda: ckpt.open(path).cast("bf16").edits,
                 lambda: [t.parts for t in ckpt.open(path).tensors()], lambda: ckpt.scan(path), lambda: ckpt.stat(path), lambda: ckpt.verify(path)):
        try:
            call()
        except ckpt.Error:
            pass


def test_no_byte_of_a_file_makes_an_error_of_another_kind(tmp_path, files):
    body = files.glob("collections", "OrderedDict") + b")R(" + files.text("a") + files.tensor("0", numel=2, shape=(2,))
    body += files.text("d") + files.glob("collections", "defaultdict") + files.glob("builtins", "int") + b"\x85R"
    body += files.text("n") + files.glob("argparse", "Namespace") + b")\x81}" + files.text("lr") + files.number(1) + b"sbu"
    pickled = files.pickled(body)
    path, out = str(tmp_path / "m.pt"), str(tmp_path / "out.pt")
    for at in range(2, len(pickled)):
        for byte in (0xff, 0x0a, pickled[at] ^ 0x80, 0x2e):
            records = [("data.pkl", pickled[:at] + bytes((byte,)) + pickled[at + 1:]), ("byteorder", b"little"), ("data/0", bytes(8)), ("version", b"3\n")]
            with open(path, "wb") as stream:
                stream.write(files.archive(records))
            try:
                everything(path, out)
            except Exception as error:
                raise AssertionError("byte %d is %#x" % (at, byte)) from error
