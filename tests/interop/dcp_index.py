# SPDX-License-Identifier: Apache-2.0
"""What torch reads in the indexes of directories. dcp_index.py LIST RESULT

LIST has one directory per line. RESULT is JSON: {directory: {"keys": [[key, dtype, shape]], "chunks":
{key: [[offsets, sizes, file, offset, length]]}, "values": {key: [file, offset, length]}, "paths": {key: path}}},
or {directory: {"error": text}}.
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.metadata import MetadataIndex, TensorStorageMetadata  # noqa: E402

import torch_files  # noqa: E402


def place(metadata, index):
    info = metadata.storage_data[index]
    return [info.relative_path, info.offset, info.length]


def describe(metadata):
    rows, chunks, values = [], {}, {}
    for key, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, TensorStorageMetadata):
            rows.append([key, str(entry.properties.dtype)[6:], list(entry.size)])
            chunks[key] = [[list(chunk.offsets), list(chunk.sizes)] + place(metadata, MetadataIndex(key, chunk.offsets))
                           for chunk in entry.chunks]
        else:
            rows.append([key, None, None])
            values[key] = place(metadata, MetadataIndex(key))
    paths = {key: list(path) for key, path in (metadata.planner_data or {}).items()}
    return {"keys": rows, "chunks": chunks, "values": values, "paths": paths}


def main():
    result = {}
    with open(sys.argv[1], encoding="utf-8") as stream:
        for line in stream:
            directory = line.rstrip("\n")
            try:
                result[directory] = describe(dcp.FileSystemReader(directory).read_metadata())
            except Exception as error:
                result[directory] = {"error": "%s: %s" % (type(error).__name__, error)}
    with open(sys.argv[2], "w", encoding="utf-8") as stream:
        json.dump(result, stream)


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()
