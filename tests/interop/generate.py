# SPDX-License-Identifier: Apache-2.0
"""Write every interop object with the running torch.

    python generate.py OUTDIR [PATTERN | every:N:K | plans:FILE | only-build:plans:FILE]

PATTERN is of the names of objects, every:N:K every Nth from the Kth on, which is less than N, FILE a JSON list of plans of random_plans.py; only-build makes no more than a/. OUTDIR then holds
    a/NAME.pt           the object as it was built
    c/NAME.pt           a/NAME.pt loaded and saved: what `ckpt convert` has to write
    s/NAME.pt           loaded, `module.` stripped, saved: `ckpt strip-module`
    add/NAME.pt         loaded, `module.` added, saved: `ckpt add-module`
    EDIT/NAME.pt        what the edits of edits.py make of it
    o/VARIANT/NAME.pt   some of the objects, in files that other programs wrote; converting them
                        has to give c/NAME.pt, too
    manifest.json       the version, every object's protocol, what was skipped and why

Every file is loaded in a process of its own, which has done nothing but import torch: which equal
strings are one object after a load also depends on what a process did before.
"""

import fnmatch
import json
import os
import sys
import traceback
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402

import edits  # noqa: E402
import fake_cuda  # noqa: E402
import torch_files  # noqa: E402

MANY_PARTS = 20         # of random objects, so that few are lost if one ends the process that builds them


def in_child(function, *arguments):
    """FUNCTION's result (anything that JSON can hold), computed in a copy of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        with torch_files.clean_exit(), os.fdopen(writer, "w") as stream:
            json.dump(function(*arguments), stream)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    status = os.waitpid(child, 0)[1]
    if status or not text:
        return {"error": "the process ended with status %d" % status}
    return json.loads(text)


def guarded(function, *arguments):
    """FUNCTION's result, or {"error": why there is none}."""
    try:
        return function(*arguments)
    except Exception:
        return {"error": traceback.format_exc()}


def path_of(folder, part, name):
    folder = os.path.join(folder, part)
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, name + ".pt")


def chosen(only):
    """The entries that ONLY names."""
    import registry

    if only and only.startswith("plans:"):
        import random_build

        with open(only[len("plans:"):], encoding="utf-8") as stream:
            return random_build.entries(json.load(stream))
    import objects  # noqa: F401

    if only and only.startswith("every:"):
        step, first = map(int, only.split(":")[1:])
        return [entry for number, entry in enumerate(registry.ITEMS.values()) if number % step == first]
    return [entry for entry in registry.ITEMS.values() if not only or fnmatch.fnmatchcase(entry.name, only)]


def build_all(folder, only, part=0, parts=1):
    """Make a/ and o/, of PARTS of the entries one. Returns the facts of every object: made, skipped or in error."""
    import registry

    facts = {}
    for entry in chosen(only)[part::parts]:
        reason = registry.why_not(entry)
        try:
            facts[entry.name] = {"skip": reason} if reason else build(folder, entry)
        except registry.Skip as skip:
            facts[entry.name] = {"skip": str(skip)}
        except Exception:
            facts[entry.name] = {"error": traceback.format_exc()}
    return facts


def build(folder, entry):
    import odd_files

    fake_cuda.clear()
    torch.manual_seed(0)
    source = path_of(folder, "a", entry.name)
    torch.save(entry.build(), source, **save_options(entry.protocol, entry.legacy))
    odd = list(odd_files.VARIANTS) if entry.name in odd_files.NAMES else []
    for variant in odd:
        target = path_of(folder, os.path.join("o", variant), entry.name)
        odd_files.VARIANTS[variant](source, target, torch_files.load(source))
    return {"protocol": entry.protocol, "legacy": entry.legacy, "odd": odd}


def save_options(protocol, legacy):
    """How torch.save writes what is in a file of this kind."""
    return dict({"_use_new_zipfile_serialization": False} if legacy else {}, pickle_protocol=protocol)


def save_again(source, target):
    torch.save(torch_files.load(source), target)
    return "done"


def save_stripped(source, target, options):
    import prefixes

    obj = torch_files.load(source)
    try:
        if not prefixes.strip(obj):
            return "nothing"
    except prefixes.Clash:
        return "clash"
    torch.save(obj, target, **options)
    return "done"


def save_prefixed(source, target, options):
    import prefixes

    obj = torch_files.load(source)
    if not prefixes.may_add(obj):
        return "unclear"
    prefixes.add(obj)
    torch.save(obj, target, **options)
    return "done"


def rewrite_all(folder, name, facts, is_random):
    """Make c/, s/, add/ and all edits from a/NAME.pt; returns FACTS completed, or the error. Of random objects torch need not manage all."""
    source = path_of(folder, "a", name)
    options = save_options(facts["protocol"], facts["legacy"])
    facts["convert"] = in_child(guarded, save_again, source, path_of(folder, "c", name))
    facts["strip"] = in_child(guarded, save_stripped, source, path_of(folder, "s", name),
                              options)
    facts["add"] = in_child(guarded, save_prefixed, source, path_of(folder, "add", name),
                            options)
    facts["edits"] = {edit: in_child(guarded, edits.save, edit, source,
                                     path_of(folder, edit, name), options)
                      for edit in edits.EDITS}
    for result in [facts["convert"]] if is_random else [facts["convert"], facts["strip"], facts["add"]] + list(facts["edits"].values()):
        if isinstance(result, dict):
            return result
    return facts


def write_manifest(folder, facts):
    manifest = {"torch": torch.__version__, "python": sys.version.split()[0],
                "objects": {}, "skipped": {}, "errors": {}}
    for name, fact in facts.items():
        if "skip" in fact:
            manifest["skipped"][name] = fact["skip"]
        elif "error" in fact:
            manifest["errors"][name] = fact["error"]
        else:
            manifest["objects"][name] = fact
    with open(os.path.join(folder, "manifest.json"), "w") as stream:
        json.dump(manifest, stream, indent=1)
    return manifest


def main():
    folder, only = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    only_build = bool(only) and only.startswith("only-build:")
    only = only[len("only-build:"):] if only_build else only
    fake_cuda.install()
    torch.set_num_threads(1)
    facts, parts = {}, MANY_PARTS if only and only.startswith("plans:") else 1
    for part in range(parts):
        facts.update(in_child(build_all, folder, only, part, parts))
    for name in list(facts):
        if "protocol" in facts[name] and not only_build:
            facts[name] = rewrite_all(folder, name, facts[name], parts > 1)
    manifest = write_manifest(folder, facts)
    print("torch %s: %d objects, %d skipped, %d errors" % (
        manifest["torch"], len(manifest["objects"]), len(manifest["skipped"]),
        len(manifest["errors"])))
    for name, text in manifest["errors"].items():
        print("%s: %s" % (name, text))


if __name__ == "__main__":
    with torch_files.clean_exit():
        main()
