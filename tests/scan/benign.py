# SPDX-License-Identifier: Apache-2.0
"""What torch writes of tensors, containers and scalars is plain for `ckpt scan`, and nothing that it writes is dangerous.

The tests of interop that make these files (verify, legacy, script, package) ask for it.
"""

import os
import re

import scanned

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
# Their classes are called with texts, or with objects that hold some: the classes may do anything with these.
CALLED = re.compile(r"(found_arguments_in_the_state\w*|found_set_child_in_its_item)$")


def wanted(name):
    if CALLED.match(name):
        return ("unreadable",)
    if CALLERS.match(name):
        return FINE + ("dangerous",)
    return FINE if OBJECTS.match(name) else FINE[:1]


def wanted_of_streams(name):
    return ("unreadable",) if UNSET.match(name) else wanted(name)


def no_objects_wanted(name):
    """Of TorchScript, whole modules, packages (whose own modules a load runs) and programs."""
    return FINE + ("dangerous",) if CALLERS.match(name) or name.endswith(".package") else FINE


def check_files(folder, of=wanted):
    """How many are what OF says of their names, [what the others are]."""
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


def check_packages(folder):
    return check_files(folder, no_objects_wanted)
