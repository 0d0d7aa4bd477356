# SPDX-License-Identifier: Apache-2.0
"""Storages tagged `cuda:N` on a machine without a GPU.

The tag is kept beside the storage's address, and with the storage itself, so that no other one gets that address. Like torch's own tagger for CUDA, `tag` makes a new
string at every call, so that the pickler spells the tag out for every tensor.
"""

import torch

_letters_at = {}    # address: (letters of the tag, storage)


def clear():
    """Forget all tags; to be called before addresses are used again by another object."""
    _letters_at.clear()


def mark(tensor, location):
    """Give the storage of TENSOR a tag; returns TENSOR."""
    put(tensor.storage(), location)
    return tensor


def put(storage, location):
    if not location.startswith("cuda"):
        return None
    _letters_at[storage.data_ptr()] = list(location), storage
    return storage


def tag(storage):
    letters, _ = _letters_at.get(storage.data_ptr(), (None, None))
    return "".join(letters) if letters else None


def install():
    torch.serialization.register_package(0, tag, put)
