# SPDX-License-Identifier: Apache-2.0
"""Check that the sources call nothing that is newer than the libraries CMakeLists.txt asks for: oldest.py [SOURCE FOLDER]

Machines that build ckpt have newer ones, and do not notice. From the libraries' changelogs.
"""

import os
import re
import sys

NEWER = {
    "jansson>=2.11": r"json_object_(update_(existing_|missing_)?new|update_recursive|getn|setn|setn_nocheck|setn_new\w*|deln|"
                     r"iter_key_len|keylen_foreach\w*)|json_version_(str|cmp)",
}


def sources(root):
    for top in ("src", "include", "tools"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith((".c", ".h")))


def main(root):
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as stream:
        wanted = stream.read()
    found = ["CMakeLists.txt: no longer asks for %s, which oldest.py goes by" % library for library in NEWER if library not in wanted]
    for path in sources(root):
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        for library, names in NEWER.items():
            for match in re.finditer(r"\b(?:%s)\b" % names, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append("%s:%d: '%s' is newer than %s" % (path, line, match.group(), library))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
