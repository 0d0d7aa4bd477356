# SPDX-License-Identifier: Apache-2.0
"""Tables for notebooks. All texts of a file are escaped: neither tags nor control characters of a name get through."""

from __future__ import annotations

from html import escape

from ._errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, List, Sequence

    from ._checkpoint import Checkpoint, Tensor

MOST_ROWS = 100
MOST_TEXT = 200


def _cell(value: Any) -> str:
    text = str(value)
    if len(text) > MOST_TEXT:
        text = text[:MOST_TEXT] + "..."
    return escape(shown(text))


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    parts = ["<table><thead><tr>", "".join("<th>%s</th>" % _cell(one) for one in head), "</tr></thead><tbody>"]
    for row in rows:
        parts.append("<tr>%s</tr>" % "".join("<td>%s</td>" % _cell(one) for one in row))
    parts.append("</tbody></table>")
    return "".join(parts)


def size_text(nbytes: int) -> str:
    """Like 1.5 MiB."""
    size, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return "%d %s" % (size, unit) if unit == "B" else "%.1f %s" % (size, unit)


def _shape(shape: Any) -> str:
    return "[%s]" % ", ".join(map(str, shape))


def checkpoint_html(f: Checkpoint) -> str:
    """The first tensors of F, and what else is in it."""
    if f.closed:
        return "<p>%s</p>" % _cell(repr(f))
    info, rows = f.info, []  # type: Any, List[Sequence[Any]]
    for tensor in f.tensors()[:MOST_ROWS]:
        rows.append((tensor.name, tensor.dtype, _shape(tensor.shape), tensor.device, size_text(tensor.nbytes)))
    count = info["tensor_count"]
    head = "%s: %s, %d tensors, %s" % (f._source if f._source is not None else "in memory", info["format"], count,
                                       size_text(info["storage_nbytes"]))
    more = "<p>and %d more</p>" % (count - MOST_ROWS) if count > MOST_ROWS else ""
    return "<p>%s</p>%s%s" % (_cell(head), _table(("name", "dtype", "shape", "device", "size"), rows), more)


def tensor_html(tensor: Tensor) -> str:
    """What TENSOR is. Its values are not read."""
    checkpoint = tensor._checkpoint
    if checkpoint.closed and checkpoint._columns is None:
        return "<p>%s</p>" % _cell(repr(tensor))
    rows: List[Sequence[Any]] = [("name", tensor.name), ("dtype", tensor.dtype), ("shape", _shape(tensor.shape)), ("device", tensor.device)]
    if tensor.layout != "strided":
        rows.append(("layout", tensor.layout))
    if tensor.class_name:
        rows.append(("class", tensor.class_name))
    rows.append(("size", size_text(tensor.nbytes)))
    if tensor.stride() is not None:
        rows.append(("strides", _shape(tensor.stride())))
        rows.append(("storage", "%d, from item %d" % (tensor._column("storages"), tensor.storage_offset())))
    return _table(("ckpt.Tensor", ""), rows)
