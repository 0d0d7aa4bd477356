# SPDX-License-Identifier: Apache-2.0
"""Hold docs/errors.md against include/ckpt/error.h (statuses, reasons) and against `ckpt help` (exit codes).

Every code that a help text names is on the page, and no other; so is every constant of the two enums. Commands that end with each
code are run as well.
"""

import os
import re
import subprocess
import sys
import tempfile

CKPT, SOURCE = os.environ["CKPT"], os.environ["CKPT_SOURCE_DIR"]
DDP = os.path.join(SOURCE, "tests", "fixtures", "ddp", "ddp_model.pt")
wrong = []


def read(*names):
    with open(os.path.join(SOURCE, *names), encoding="utf-8") as file:
        return file.read()


def same(what, page, truth):
    for name in sorted(set(page) - set(truth)):
        wrong.append("docs/errors.md has %s %s, which does not exist" % (what, name))
    for name in sorted(set(truth) - set(page)):
        wrong.append("docs/errors.md lacks %s %s" % (what, name))


def rows(page, heading):
    """The cells of the table whose first column is called HEADING."""
    table = re.search(r"^\| %s \|.*\n\|[ |-]*\n((?:\|.*\n)+)" % re.escape(heading), page, re.M)[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def run(*argv, cwd=None):
    return subprocess.run([CKPT, *argv], cwd=cwd, capture_output=True, text=True, check=False)


def codes(text):
    """The numbers that are exit codes in a text: '0 sound; 1 damaged', '128+n signal'."""
    return set(re.findall(r"(?:(?<=[:;,] )|(?<=[;,]\n))(\d+(?:\+n)?)(?=[ ;,:])", text))


def enums(page):
    header = read("include", "ckpt", "error.h")
    for enum, heading in (("ckpt_status", "Status"), ("ckpt_reason", "Reason")):
        body = re.search(r"enum %s \{(.*?)\n\};" % enum, header, re.S)[1]
        found = re.findall(r"^\t(CKPT_\w+)\b.*?(?:/\* (\w+)?.*)?$", body, re.M)
        table = rows(page, heading)
        same("the constant", [cells[0].strip("`") for cells in table], [name for name, _ in found])
        if enum == "ckpt_reason":
            truth = {name: word for name, word in found if word and word.isupper()}
            for cells in table:
                name, status = cells[0].strip("`"), cells[1].strip("`")
                if name in truth and status != "CKPT_E_" + truth[name]:
                    wrong.append("%s: the page says %s, the header %s" % (name, status, truth[name]))


def helps(page):
    general = run("help").stdout
    same("the exit code", [cells[0] for cells in rows(page, "Code")], codes(re.search(r"Exit codes(:.*)", general)[1]))
    commands = re.findall(r"^  ([a-z-]+)  ", general, re.M)
    asked = {cells[0].strip("`").split()[1]: cells for cells in rows(page, "Command")}
    said = {}
    for name in commands:
        text = re.search(r"Exit status(.*?)\n\n", run(name, "--help").stdout, re.S)
        if text:
            said[name] = codes(text[1])
    same("codes of `ckpt broadcast`:", [cells[0] for cells in rows(page, "Code of `ckpt broadcast`")], said.pop("broadcast"))
    same("a row for", asked, said)
    for name in set(said) & set(asked):
        same("an exit code of `ckpt %s`:" % name, [str(n) for n, cell in enumerate(asked[name][1:]) if cell], said[name])


def trials():
    with tempfile.TemporaryDirectory() as folder:
        for code, argv in ((0, ("ls", DDP)), (1, ("ls", DDP, "nothing")), (1, ("strip-prefix", "x.", DDP, "out")), (1, ("latest", ".")),
                           (2, ("ls", "absent.pt")), (2, ("extract", "nothing", DDP, "out")), (64, ("ls",)), (64, ("lss",)),
                           (3, ("broadcast", "--transport", "self", "absent.pt", "out")), (1, ("repair", DDP, "out"))):
            done = run(*argv, cwd=folder)
            if done.returncode != code:
                wrong.append("ckpt %s ends with %d, wanted %d:\n%s" % (" ".join(argv), done.returncode, code, done.stderr))


def main():
    page = read("docs", "errors.md")
    enums(page)
    helps(page)
    trials()
    if wrong:
        sys.exit("\n".join(wrong))
    print("statuses, reasons and exit codes are on the page")


main()
