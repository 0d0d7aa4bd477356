# SPDX-License-Identifier: Apache-2.0
"""All interop objects. Importing this module fills the registry."""

import objects_containers  # noqa: F401
import objects_found  # noqa: F401
import objects_numpy  # noqa: F401
import objects_python  # noqa: F401
import objects_tensors  # noqa: F401
import objects_training  # noqa: F401
import registry

# Objects that are saved once more with other pickle protocols.
PROTOCOL_CASES = (
    "tensor_views", "trainer_checkpoint", "ddp_state_dict", "atoms_ints", "atoms_bytes",
    "atoms_strings", "long_strings", "dict_1001", "set_5", "frozenset_5", "memo_over_256",
    "numpy_arrays", "objects_with_state", "tuples_in_themselves", "classes_and_functions",
    "ddp_1001_entries_plain",
)


def add_protocol_variants():
    for name in PROTOCOL_CASES:
        entry = registry.ITEMS[name]
        for protocol in (3, 4, 5):
            registry.add("%s_p%d" % (name, protocol), entry.build, since=entry.since,
                         until=entry.until, protocol=protocol)


add_protocol_variants()
