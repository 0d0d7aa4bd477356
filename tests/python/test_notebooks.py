# SPDX-License-Identifier: Apache-2.0
"""What notebooks show: tables without what a hostile name would do, and bars of tqdm."""

import html.parser

import pytest

import ckpt
from conftest import Floats

HOSTILE = ['<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "&lt;b&gt;", "\u202e\x1b[31m\n\0", "\ud800", "x" * 10000]


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = set(), []

    def handle_starttag(self, tag, attributes):
        assert not attributes
        self.tags.add(tag)

    def handle_data(self, data):
        self.text.append(data)


def parsed(text):
    text.encode("utf-8")
    assert all(c.isprintable() for c in text)
    tags = Tags()
    tags.feed(text)
    assert tags.tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    return tags.text


def test_names_do_nothing_in_a_notebook(tmp_path):
    path = str(tmp_path / "<b>.pt")
    ckpt.save({name: Floats(i) for i, name in enumerate(HOSTILE)}, path)
    with ckpt.open(path) as f:
        text = parsed(f._repr_html_())
        assert HOSTILE[0] in text and HOSTILE[2] in text and any("<b>.pt: torch zip, 6 tensors" in one for one in text)
        for name in f:
            assert "float32" in parsed(f[name]._repr_html_())
        first = f[HOSTILE[0]]
        assert parsed(first._repr_html_())[1:5] == ["name", HOSTILE[0], "dtype", "float32"]
    assert parsed(f._repr_html_()) == [repr(f)] and parsed(first._repr_html_())


def test_a_table_has_an_end(tmp_path):
    ckpt.save({"t%d" % i: Floats(i) for i in range(150)}, str(tmp_path / "x.pt"))
    text = parsed(ckpt.open(str(tmp_path / "x.pt"))._repr_html_())
    assert "t99" in text and "t100" not in text and "and 50 more" in text


class Bar:
    """What is used of tqdm."""

    made = []

    def __init__(self, total=None, unit="it", unit_scale=False):
        self.total, self.n, self.closed, self.unit = total, 0, False, unit
        self.made.append(self)

    def update(self, count):
        self.n += count

    def close(self):
        self.closed = True


@pytest.mark.parametrize("call", [
    lambda path, bar: ckpt.verify(path, progress=bar), lambda path, bar: ckpt.scan(path, progress=bar), lambda path, bar: ckpt.stat(path, progress=bar),
    lambda path, bar: ckpt.open(path).set("n", 2).save(path + "2", progress=bar), lambda path, bar: ckpt.save(ckpt.load(path), path + "3", progress=bar),
    lambda path, bar: ckpt.convert(path, path + ".npz", drop_others=True, progress=bar), lambda path, bar: ckpt.diff(path, path, progress=bar),
])
def test_bars_move_to_their_end(call, tmp_path):
    path = str(tmp_path / "x.pt")
    ckpt.save({"a": Floats(*range(1000)), "n": 1}, path)
    bar = Bar()
    call(path, bar)
    assert bar.n == bar.total and not bar.closed
    for name in ("2", "3", ".npz"):
        if (tmp_path / ("x.pt" + name)).exists():
            (tmp_path / ("x.pt" + name)).unlink()
    Bar.made.clear()
    call(path, Bar)
    assert all(one.n == one.total and one.closed and one.unit == "B" for one in Bar.made)
    with pytest.raises(TypeError, match="progress"):
        call(path, 7)


def test_the_tree_has_a_line_for_each_value_whatever_names_say(tmp_path):
    ckpt.save({"a\nb\x1b[31m\u202e": 1, "c": "d\ne"}, tmp_path / "x.pt")
    with ckpt.open(tmp_path / "x.pt") as f:
        tree = f.tree()
    assert len(tree.split("\n")) == 3 and all(line.isprintable() for line in tree.split("\n"))
