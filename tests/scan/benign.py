# SPDX-License-Identifier: Apache-2.0
"""What torch writes of tensors, containers and scalars is plain for `ckpt scan`, and nothing that it writes is dangerous: benign.py [others]

CKPT, CKPT_PYTHON and CKPT_TEST_DIR as for the tests of interop, whose objects these are.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "interop"))
import each_torch  # noqa: E402
import scanned  # noqa: E402

# Objects of classes, arrays of numpy, functions, whole modules: they need what they name.
OBJECTS = re.compile(
    r"""(numpy_.*|random_(python|numpy|states).*|whole_.*|lightning_checkpoint|small_objects|return_types|torch_version_object|generators|memory_formats
    |children_.*|.*_child.*|chain_map.*|object_.*|ranges_and_slices|dates_and_times|numbers_of_the_library|paths|identifiers|enums|enum_.*|namespaces|dataclass_objects|named_tuples
    |objects_with_state.*|same_attribute_names|attribute_name.*|exceptions|partials|classes_and_functions.*|functions_of_torch|bound_methods|operators|patterns|shared_parts
    |found_.*|deque_.*|defaultdict_.*|dtensor.*|optimizer_whole|scheduler_.*|quantised_state_dict|nested_tensor_jagged|random_torch|parameter_uninitialised|parameter_list_and_dict|trainer_checkpoint.*|tensor_child.*|storage_like_a_descriptor)$""",
    re.X,
)
# They are functions that call or find others, or are made by such.
CALLERS = re.compile(
    r"(partials|bound_methods|operators|functions_of_torch|classes_and_functions.*|objects_with_state.*|.*graph_module.*)$"
)
FINE = ("plain", "needs-objects")
# In a stream torch copies their numbers, or looks at them, before they are there.
UNSET = re.compile(r"(generators|found_generators_and_functions.*|nested_tensor)$")


def wanted(name):
    if CALLERS.match(name):
        return FINE + ("dangerous",)
    return FINE if OBJECTS.match(name) else FINE[:1]


def wanted_of_streams(name):
    return ("unreadable",) if UNSET.match(name) else wanted(name)


def no_objects_wanted(name):
    """Of TorchScript, whole modules, packages (whose own modules a load runs) and programs."""
    return FINE + ("dangerous",) if CALLERS.match(name) or name.endswith(".package") else FINE


def check_files(folder, of):
    right, wrong = 0, []
    found = scanned.scan(folder)[1] if os.listdir(folder) else {}  # the oldest torch makes no packages
    for path, one in sorted(found.items()):
        name = os.path.splitext(os.path.relpath(path, folder))[0]
        allowed = of(os.path.basename(name))
        if one["verdict"] in allowed:
            right += 1
        else:
            wrong.append(
                "%s is %s, wanted %s: %s" % (name, one["verdict"], " or ".join(allowed), [f["text"] for f in one["findings"][:3]])
            )
    return right, wrong


def made_by(command, work, *words):
    return subprocess.run(command.split() + list(words), cwd=work, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def check_archives(_, command, work):
    printed = made_by(command, work, "verify_files.py", "zip")
    right, wrong = check_files(os.path.join(work, "zip"), wanted)
    made = printed.count("made ") + printed.count("numbers ")
    if right + len(wrong) != made or right < 200:
        wrong.append("%d files were made, %d scanned" % (made, right + len(wrong)))
    return right, wrong


def check_others(_, command, work):
    """Streams, programs and packages."""
    made_by(command, work, "legacy_files.py", "legacy")
    right, wrong = check_files(os.path.join(work, "legacy"), wanted_of_streams)
    if right < 200:
        wrong.append("%d streams were scanned" % right)
    made_by(command, work, "script_files.py", "script")
    scripts, worse = check_files(os.path.join(work, "script", "in"), no_objects_wanted)
    os.makedirs(os.path.join(work, "package"))
    made_by(command, work, "package_files.py", "make", "package")
    packages, worst = check_files(os.path.join(work, "package"), no_objects_wanted)
    return right + scripts + packages, wrong + worse + worst


if __name__ == "__main__":
    each_torch.main("scan", check_others if sys.argv[1:] == ["others"] else check_archives)
