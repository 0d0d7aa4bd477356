# SPDX-License-Identifier: Apache-2.0
"""Keys and paths: from flat keys back to the nested state."""

from dcp_build import Dialect, Directory, numbered
from harness import case

T = numbered("float32", (2, 3))
S = numbered("int64", ())

# state: [(key, path, tensor or value)] by the rule from 2.4, and by the one before
TABLE = {
    "model": ({"model": {"w": T}}, [("model.w", ("model", "w"), T)], None),
    "optimizer": ({"optimizer": {"state": {"0": {"step": S, "exp_avg": T}}}},
                  [("optimizer.state.0.step", ("optimizer", "state", "0", "step"), S),
                   ("optimizer.state.0.exp_avg", ("optimizer", "state", "0", "exp_avg"), T)], None),
    "groups": ({"optimizer": {"state": {"0": {"step": S}}, "param_groups": [
        {"lr": .1, "betas": (.9, .99), "params": [0]}, {"lr": .2, "betas": (.9, .99), "params": [1]}]}},
        [("optimizer.state.0.step", ("optimizer", "state", "0", "step"), S)] +
        [("optimizer.param_groups.%d.%s" % (at, name), ("optimizer", "param_groups", at, name), value)
         for at, lr in enumerate((.1, .2)) for name, value in (("lr", lr), ("betas", (.9, .99)), ("params", [at]))],
        [("optimizer.state.0.step", ("optimizer", "state", "0", "step"), S),
         ("optimizer.param_groups", ("optimizer", "param_groups"),
          [{"lr": .1, "betas": (.9, .99), "params": [0]}, {"lr": .2, "betas": (.9, .99), "params": [1]}])]),
    "history": ({"hist": [1, 2, 3], "elist": []}, [("hist", ("hist",), [1, 2, 3]), ("elist", ("elist",), [])], None),
    "mixed": ({"mix": [T, {"a": 1}]}, [("mix.0", ("mix", 0), T), ("mix.1.a", ("mix", 1, "a"), 1)],
              [("mix.0", ("mix", 0), T), ("mix.1", ("mix", 1), {"a": 1})]),
    "config": ({"cfg": {"d": {"e": 1}}}, [("cfg.d.e", ("cfg", "d", "e"), 1)], [("cfg", ("cfg",), {"d": {"e": 1}})]),
    "empty": ({"empty": {}}, None, [("empty", ("empty",), {})]),
    "lists": ({"l": [[1, 2], [T]]}, [("l.0", ("l", 0), [1, 2]), ("l.1.0", ("l", 1, 0), T)], None),
    "list of dict": ({"l": [{"a": 1}, 3]}, [("l.0.a", ("l", 0, "a"), 1), ("l.1", ("l", 1), 3)],
                     [("l", ("l",), [{"a": 1}, 3])]),
    "plain lists": ({"l": [[1, 2], [3]]}, [("l", ("l",), [[1, 2], [3]])], None),
    "many in a list": ({"l": [at for at in range(12)]}, [("l.%d" % at, ("l", at), at) for at in range(12)], None),
}


def fill(directory, entries):
    for key, path, value in entries:
        add = directory.tensor if isinstance(value, type(T)) else directory.value
        add(key, value, path=path)
    return directory


@case(17)
def both_rules(t):
    for name, (wanted, new, old) in TABLE.items():
        for rule, entries, release in (("new", new, "2.6"), ("old", old or new, "2.0")):
            if entries is not None:
                directory = fill(Directory(t.path()), entries).write(Dialect(release))
                t.merges("%s, %s rule" % (name, rule), directory.path, wanted)


@case(17)
def order_of_keys(t):
    """That of the index, not of the paths; a container stands where its first key does."""
    entries = [("b.x", ("b", "x"), 1), ("a.y", ("a", "y"), T), ("b.a", ("b", "a"), 2), ("c", ("c",), 3),
               ("a.b.c", ("a", "b", "c"), S)]
    directory = fill(Directory(t.path()), entries).write()
    t.merges("interleaved", directory.path, {"b": {"x": 1, "a": 2}, "a": {"y": T, "b": {"c": S}}, "c": 3})
    directory = fill(Directory(t.path()), [("l.1", ("l", 1), T), ("l.0", ("l", 0), 5)]).write()
    t.merges("list, backward", directory.path, {"l": [5, T]})


@case(17)
def int_keys(t):
    entries = [("optimizer.state.%s.exp_avg" % at, ("optimizer", "state", at, "exp_avg"), T) for at in ("0", "1", "10")]
    entries += [("optimizer.names.0", ("optimizer", "names", "0"), 1), ("state.0", ("state", "0"), 2),
                ("other.state.0", ("other", "state", "0"), 3), ("other.state.x", ("other", "state", "x"), 4)]
    directory = fill(Directory(t.path()), entries).write()
    wanted = {"optimizer": {"state": {at: {"exp_avg": T} for at in ("0", "1", "10")}, "names": {"0": 1}},
              "state": {"0": 2}, "other": {"state": {"0": 3, "x": 4}}}
    t.merges("off", directory.path, wanted)
    wanted["optimizer"]["state"] = {at: {"exp_avg": T} for at in (0, 1, 10)}
    wanted["state"] = {0: 2}
    t.merges("on", directory.path, wanted, "--int-keys")


@case(18)
def odd_keys(t):
    names = ["a.b", "a b", "grün.☃", "𝒳", "", "tab\tnew\nline", "/shard_0_16", "x" * 4096, "'\"\\", "../up", "0", "-1",
             ".", "..", "a.", ".a", "None", "\x7f", "e\u0301", "\u00e9"]
    directory = Directory(t.path())
    for number, name in enumerate(names):
        directory.tensor(name, numbered("int16", (2,), number), path=(name,), files=["__0_0.distcp"])
        directory.value("d." + name, number, path=("d", name))
    wanted = {}
    for number, name in enumerate(names):
        wanted[name] = numbered("int16", (2,), number)
        wanted.setdefault("d", {})[name] = number
    for dialect in (Dialect(), Dialect(protocol=2), Dialect("portable", memo=False)):
        directory.write(dialect)
        t.merges("protocol %d" % dialect.protocol, directory.path, wanted)
    t.survives("ls", "ls", directory.path)
    t.survives("ls --json", "ls", "--json", directory.path)


@case(18)
def broken_names(t):
    """Surrogates, which CPython writes as they are: an answer, no crash, nothing that upsets a terminal."""
    directory = Directory(t.path()).tensor("a\ud800b", T, path=("a\ud800b",)).write_data()
    data = directory.index()
    with open(directory.path + "/.metadata", "wb") as out:
        out.write(data)
    t.survives("ls", "ls", directory.path)
    t.survives("merge", "merge", directory.path, t.path() + ".pt")


@case(19)
def planner_data(t):
    entries = [("model.w", ("model", "w"), T), ("l.0", ("l", 0), S), ("l.1.x", ("l", 1, "x"), 1)]
    flat = {key: value for key, _, value in entries}
    directory = fill(Directory(t.path()), entries).write(planner=None)
    t.merges("None", directory.path, flat)
    directory.write(planner={})
    t.merges("empty", directory.path, flat)
    directory.write(planner={"l.0": ("l", 0), "l.1.x": ("l", 1, "x")})
    t.merges("partial", directory.path, {"model.w": T, "l": [S, {"x": 1}]})
    directory.write(planner=dict(directory.planner, gone=("gone", "x")))
    t.merges("more than keys", directory.path, {"model": {"w": T}, "l": [S, {"x": 1}]})
    directory.write(planner=dict(directory.planner, **{"model.w": ("other", "name")}))
    # torch believes the path: but no planner writes it so, and a flipped bit does
    t.refuses_merge("another path", directory.path, "its path says another name than 'model.w'")


@case(19)
def paths_that_clash(t):
    """A path through a value, two keys at one place, a list that is also a dict, huge and negative positions."""
    for label, entries in (
            ("through a tensor", [("a", ("a",), T), ("a.b", ("a", "b"), T)]),
            ("through a value", [("a.b", ("a", "b"), 1), ("a", ("a",), 2)]),
            ("one place", [("a.b", ("a.b",), T), ("x", ("a.b",), T)]),
            ("list and dict", [("a.0", ("a", 0), T), ("a.x", ("a", "x"), T)]),
            ("huge position", [("a.9", ("a", 1 << 60), T)]),
            ("large position", [("a.9", ("a", 1 << 31), T)]),
            ("negative position", [("a.9", ("a", -1), T)]),
            ("empty path", [("a", (), T)]),
            ("odd element", [("a", (None,), T)]),
            ("position at the top", [("0", (0,), T)])):
        directory = fill(Directory(t.path()), entries).write()
        t.survives(label, "merge", directory.path, t.path() + ".pt")
        t.survives(label + ", ls", "ls", directory.path)
    directory = fill(Directory(t.path()), [("a", ("a",), T), ("a.b", ("a", "b"), T)]).write()
    t.merges("through a tensor, nothing is lost", directory.path, {"a": T, "a.b": T})


@case(20)
def selection(t):
    entries = [("model.a.w", ("model", "a", "w"), T), ("model.a.b", ("model", "a", "b"), S),
               ("model.ab", ("model", "ab"), 1), ("model.x.y", ("model", "x.y"), T), ("opt.lr", ("opt", "lr"), .5),
               ("l.0", ("l", 0), T), ("l.1", ("l", 1), {"k": 1})]
    directory = fill(Directory(t.path()), entries).write()
    model = {"a": {"w": T, "b": S}, "ab": 1, "x.y": T}
    t.merges("prefix", directory.path, {"model": model}, "--only", "model")
    t.merges("deeper", directory.path, {"model": {"a": model["a"]}}, "--only", "model.a")
    t.merges("exact", directory.path, {"model": {"a": {"w": T}}}, "--only", "model.a.w")
    t.merges("two", directory.path, {"model": {"ab": 1}, "opt": {"lr": .5}}, "--only", "opt", "--only", "model.ab")
    t.merges("a key with a dot", directory.path, {"model": {"x.y": T}}, "--only", "model.x.y")
    t.merges("a list", directory.path, {"l": [T, {"k": 1}]}, "--only", "l")
    t.refuses("nothing matches", "merge", "--only", "modle", directory.path, t.path() + ".pt",
              names=["modle"], statuses=(1, 2))
