# SPDX-License-Identifier: Apache-2.0
"""Suites of unit tests in a program whose locale writes 1,5: what is read from files and written must not depend on it.

comma_locale.py UNIT_TESTS SUITE...
"""

import os
import subprocess
import sys
import tempfile

LOCALE = "de_DE.UTF-8"


def main():
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", os.path.join(folder, LOCALE)], capture_output=True, check=False)
        if not os.path.exists(os.path.join(folder, LOCALE)):
            print("no locale with a comma can be made here: %s" % made.stderr.decode(errors="replace").strip().replace("\n", " "))
            return 77
        failed = []
        for suite in sys.argv[2:]:
            env = dict(os.environ, LOCPATH=folder, LC_ALL=LOCALE, CKPT_TEST_LOCALE="1")
            if subprocess.run([sys.argv[1], suite], env=env, check=False).returncode:
                failed.append(suite)
    print("failed with a comma: %s" % ", ".join(failed) if failed else "%d suites" % len(sys.argv[2:]))
    return 1 if failed else 0


sys.exit(main())
