# SPDX-License-Identifier: Apache-2.0
"""Directories with names, links, holes and modes made at random: no crash, no hang, the input stays as it is, and what lies beside
the shards arrives as it was."""

import os
import stat

import common
from common import Finding, ckpt

READING = [["ls", "IN"], ["info", "IN"], ["verify", "IN"], ["stat", "IN"], ["scan", "IN"], ["why", "IN"], ["latest", "IN"], ["diff", "IN", "IN"],
           ["cat", "IN", "weight"], ["ls", "--json", "IN"], ["repair", "-n", "IN"]]

NAMES = ["__0_0.distcp", "__1_0.distcp", "__00_0.distcp", "__2_0.distcp", ".metadata", ".metadata.tmp", "__0.metadata", "__0.metadata.tmp",
         "model-00001-of-00002.safetensors", "model-1-of-2.safetensors", "model-00002-of-00002.safetensors", "model-00000-of-00002.safetensors",
         "model-99999999999999999999-of-00002.safetensors", "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
         "pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "shard-00001-model-00001-of-00001.safetensors",
         "shard-1-model-1-of-1.safetensors", "shard-99999999999-model-00001-of-00001.safetensors", "model_rank_0.pt", "model_rank_0.bin",
         "model_rank_00.pt", "model_rank_3.pt", "model_rank_65535.pt", "model_rank_99999999999999999999.pt", "model_world_size_4_rank_0.pt",
         "model_world_size_99999999999_rank_0.pt", "rank_0.pt", "x_rank0.pth", "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
         "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", "latest", "meta.pt", "common.pt", "integrity.json", "config.json", ".x.1-0.ckpt-tmp",
         "checkpoint.pt", "step_0", "global_step1"]


def any_name(rng):
    how = rng.randrange(6)
    if how < 3:
        return os.fsencode(rng.choice(NAMES))
    if how == 3:  # one of those, changed a little
        name = bytearray(rng.choice(NAMES).encode())
        at = rng.randrange(len(name))
        name[at:at + rng.randrange(3)] = rng.choice([b"", b"0", b"9", b"-", b"_", b"\n", b"\xff", b"%", b"*"])
        return bytes(name).replace(b"/", b"_") or b"x"
    if how == 4:
        name = bytes(rng.choice(b"abc.-_ *?[]\n\t\"'\\$%\xc3\xa9\xff01") for _ in range(rng.randrange(1, 12)))
        return b"x" if name in (b".", b"..") else name
    return b"n" * rng.choice([100, 200, 255])


def fill_file(rng, path, donors):
    how = rng.randrange(5)
    with open(path, "wb") as file:
        if how == 0 and donors:
            with open(rng.choice(donors), "rb") as donor:
                file.write(donor.read())
        elif how == 1:
            file.write(rng.randbytes(rng.randrange(2000)))
        elif how == 2:
            file.truncate(rng.choice([1, 4096, 100000, 3 << 20]))
        elif how == 3:
            file.write(b"head")
            file.truncate(rng.choice([4097, 1 << 20]))
    os.chmod(path, rng.choice([0o644, 0o600, 0o444, 0o711, 0o640, 0o666]))


def add_link_or_file(rng, path, donors):
    if rng.random() < 0.3:
        os.symlink(rng.choice([b"none", b"..", b"../.metadata", b"__0_0.distcp"]), path)
    else:
        fill_file(rng, path, donors)


def add(rng, folder, donors, elsewhere):
    path = os.path.join(folder, any_name(rng))
    if path[-1:] in b"." or os.path.lexists(path):
        return
    how = rng.randrange(12)
    try:
        if how < 5:
            fill_file(rng, path, donors)
        elif how == 5:
            os.symlink(rng.choice(os.listdir(folder) or [b"x"]), path)
        elif how == 6:
            os.symlink(rng.choice([elsewhere, os.path.join(elsewhere, b"file")]), path)
        elif how == 7:
            os.symlink(rng.choice([b"none", b".", b"..", os.path.basename(path), b"/dev/zero", b"/dev/null"]), path)
        elif how == 8:
            os.makedirs(os.path.join(path, any_name(rng)))
            for name in sorted({any_name(rng) for _ in range(rng.randrange(3))} - set(os.listdir(path))):
                add_link_or_file(rng, os.path.join(path, name), donors)
            os.chmod(path, rng.choice([0o755, 0o750, 0o700]))
        elif how == 9:
            os.mkfifo(path)
        elif how == 10:
            os.mkdir(path)
        elif donors:
            os.link(rng.choice(donors), path)
    except FileExistsError:
        pass


def change(rng, folder, elsewhere):
    """An entry that is there: renamed, or moved away with a link in its place, or cut, or gone."""
    entries = [name for name in os.listdir(folder) if stat.S_ISREG(os.lstat(os.path.join(folder, name)).st_mode)]
    if not entries:
        return
    path = os.path.join(folder, rng.choice(sorted(entries)))
    how = rng.randrange(6)
    if how < 2:
        to = os.path.join(folder, any_name(rng))
        if not os.path.lexists(to):
            os.rename(path, to)
    elif how < 4:
        to = os.path.join(elsewhere, b"moved%d" % len(os.listdir(elsewhere)))
        os.rename(path, to)
        os.symlink(to if how == 2 else os.path.relpath(to, folder), path)
    elif how == 4:
        os.truncate(path, rng.randrange(os.path.getsize(path) + 1))
    else:
        os.unlink(path)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def is_of_shards(name):
    """Does an edit replace it, or make it untrue? NAME: from the directory on."""
    return os.sep not in name and (name.endswith((".distcp", "metadata", "metadata.tmp")) or name == "integrity.json")


def check_entry(old, new):
    """What is wrong with the copy NEW of OLD, or None."""
    if os.path.islink(old) and not os.path.isfile(old):
        return None if os.path.islink(new) and os.readlink(old) == os.readlink(new) else "is another link"
    if os.path.isdir(old) != os.path.isdir(new):
        return "is not what it was"
    if not os.path.isdir(old) and common.bytes_of(old) != common.bytes_of(new):
        return "arrived otherwise"
    return "may be used by more than before (%o, %o)" % (mode_of(old), mode_of(new)) if mode_of(new) & ~mode_of(old) else None


def check_beside(source, out, told):
    """Whatever lies beside the shards of a directory comes along with an edit of it, as it was."""
    for name in common.snapshot(source):
        new = os.path.join(out, name)
        if is_of_shards(name):
            continue
        wrong = check_entry(os.path.join(source, name), new) if os.path.lexists(new) else "was left behind"
        if wrong:
            raise Finding("%r %s: %s" % (name, wrong, told))


def is_dcp(path):
    return os.path.isfile(os.path.join(path, ".metadata"))


def program(rng, inputs, work):
    kind = rng.choice(sorted(common.KINDS))
    source, elsewhere, out = (os.path.join(work, name) for name in ("in", "elsewhere", "out"))
    os.mkdir(elsewhere)
    with open(os.path.join(elsewhere, "file"), "w") as file:
        file.write("elsewhere\n")
    if common.KINDS[kind][1] and rng.random() < 0.9:
        common.copy(os.path.join(inputs, kind), source)
    else:
        os.mkdir(source)
        common.copy(os.path.join(inputs, kind), os.path.join(source, os.fsdecode(any_name(rng))))
    folder = os.fsencode(source)
    donors = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    for _ in range(rng.choice([0, 0, 0, 1, 2, 3])):
        change(rng, folder, os.fsencode(elsewhere))
    donors = [path for path in donors if os.path.isfile(path)]
    for _ in range(rng.randrange(5)):
        add(rng, folder, donors, os.fsencode(elsewhere))
    before = common.snapshot(work)
    for words in (rng.choice(READING), rng.choice(common.COMMANDS)[0]):
        result = ckpt(*common.fill(words, source, out))
        there = common.snapshot(work, out)
        there.pop(".out.ckpt-staged", None)
        if common.difference(before, there):
            raise Finding("%s\n%s" % (common.difference(before, there), result))
    if words[0] != "broadcast" and result.code == 0 and is_dcp(source) and is_dcp(out):
        check_beside(source, out, result)


if __name__ == "__main__":
    common.rounds(program, 150, 3000)
