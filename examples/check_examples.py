# SPDX-License-Identifier: Apache-2.0
"""Run the examples of a page and compare: check_examples.py [--update] PAGE.md CKPT FIXTURES

Every ```console block is one session: lines that begin with '$ ' are commands, what follows is what
they print, on both streams. All blocks of a page run in one new folder that has the fixtures. The
times of a run ('in 0.01 s') may differ. --update writes what is printed now into the page.

check_examples.py --scripts FOLDER CKPT checks the scripts for jobs in FOLDER instead: the command prints the same text, shells
and YAML take them, the options in them exist, and those that need no cluster run here, on this one machine.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
TIME = re.compile(r"\bin \d+\.\d\d s\b")


def without_times(text):
    return TIME.sub("in 0.00 s", text)


def replay(block, folder, environment):
    """The block as it looks when its commands are run now."""
    lines = []
    for command in re.findall(r"^\$ (.*)$", block, re.M):
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        lines.append("$ %s\n%s" % (command, done.stdout))
    return "".join(lines)


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--scripts"]:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import check_scripts
        return check_scripts.main(*[os.path.abspath(a) for a in arguments[1:]])
    update = "--update" in arguments
    page, ckpt, fixtures = [os.path.abspath(a) for a in arguments if a != "--update"]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "bin"))
        os.symlink(ckpt, os.path.join(folder, "bin", "ckpt"))
        work = os.path.join(folder, "work")
        shutil.copytree(fixtures, work)
        environment = dict(os.environ, LC_ALL="C.UTF-8",
                           PATH=os.pathsep.join([os.path.join(folder, "bin"), os.path.dirname(sys.executable), os.environ["PATH"]]))
        wrong = []

        def check(match):
            now = without_times(replay(match[1], work, environment))
            if now != without_times(match[1]):
                wrong.append("%s says:\n%s\nckpt says:\n%s" % (os.path.basename(page), match[1], now))
            return "```console\n%s```" % now

        new = BLOCK.sub(check, text)
    if update:
        with open(page, "w", encoding="utf-8") as file:
            file.write(new)
    elif wrong:
        sys.exit("\n".join(wrong))
    print("%d sessions, %d changed" % (len(BLOCK.findall(text)), len(wrong)))


main()
