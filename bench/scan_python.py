# SPDX-License-Identifier: Apache-2.0
"""What a scanner in Python has to do at least: every member read and its checksum compared, every opcode of the pickles seen.

    scan_python.py FOLDER    prints how many files, members, opcodes and imports there are
"""
import os
import pickletools
import sys
import zipfile


def main():
    files = members = opcodes = imports = 0
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            files += 1
            with zipfile.ZipFile(os.path.join(folder, name)) as archive:
                for info in archive.infolist():
                    members += 1
                    data = archive.read(info)
                    if info.filename.endswith(".pkl"):
                        for opcode, _, _ in pickletools.genops(data):
                            opcodes += 1
                            imports += opcode.name in ("GLOBAL", "STACK_GLOBAL", "INST")
    print(files, members, opcodes, imports)


if __name__ == "__main__":
    main()
