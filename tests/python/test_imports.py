# SPDX-License-Identifier: Apache-2.0
"""What `import ckpt` imports: all of the module, so that no handler of a signal meets a part that is only half there."""

import os
import pathlib
import subprocess
import sys

import ckpt

FOLDER = pathlib.Path(ckpt.__file__).parent
# with numpy, with torch, and for those who use these
LATER = {"torch", "_broadcast", "_guard", "_scanned", "_staging", "_numpy", "_dlpack", "_html"}


def printed(code):
    env = dict(os.environ, PYTHONPATH=str(FOLDER.parent))
    return subprocess.run([sys.executable, "-c", code], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def test_all_of_the_module_is_imported_at_once_and_no_more():
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} - LATER
    found = printed("import sys, ckpt; print(*sys.modules)")
    assert modules == {name[5:] for name in found if name.startswith("ckpt.") and name != "ckpt._ckpt"}
    assert not {"numpy", "torch", "tempfile", "traceback", "pickle", "asyncio", "subprocess", "threading", "re"} & set(found)


def test_names_of_the_module_are_there_without_a_function():
    assert set(ckpt.__all__) <= set(vars(ckpt))
    assert printed("import ckpt; print('torch' in dir(ckpt), 'torch' in vars(ckpt))") == ["True", "False"]



def test_what_looks_through_the_module_needs_no_torch():
    """help(), inspect, doctest and pickle ask for all that dir() names."""
    code = "import sys; sys.modules['torch'] = None; import ckpt, inspect, pydoc; print(hasattr(ckpt, 'torch'), len(inspect.getmembers(ckpt)) > 20, 'safe_open' in pydoc.render_doc(ckpt, renderer=pydoc.plaintext))"
    assert printed(code) == ["False", "True", "True"]
    code = "import sys; sys.modules['torch'] = None\ntry:\n    import ckpt.torch\nexcept ImportError as error:\n    print(error.name)"
    assert printed(code) == ["torch"]
