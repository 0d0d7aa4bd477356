# SPDX-License-Identifier: Apache-2.0
"""Edits of an open checkpoint, and writing the result. Each edit gives a new checkpoint; bytes move once, in save()."""

from __future__ import annotations

from collections import abc

from ._values import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

    from . import _ckpt
    from ._checkpoint import Checkpoint

    Names = Union[str, Sequence[str]]

# flags of <ckpt/edit.h>
_ANYWHERE, _SKIP_ABSENT = 1, 2
_DEVICE_OBJECTS, _ANY_DEVICE = 1, 2
_TO_INTEGER, _CAST_ALL = 1, 2
_JSON = 1
# enum ckpt_format_code
_SAFETENSORS, _DCP, _HUGGING_FACE, _DCP_SAFETENSORS = 8, 11, 12, 15
_TORCH_NAMES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")


def names_of(names: Names) -> List[str]:
    """One name or several, as a list."""
    return [names] if isinstance(names, (str, bytes)) else list(names)


def config_text(config: Any) -> Union[None, str, bytes]:
    """The text of a config.json that is given as one, or as what json.load() makes of it."""
    if config is None or isinstance(config, (str, bytes)):
        if config is not None and not config.strip():
            raise ValueError("an empty text is no configuration; {} says nothing of quantization")
        return config
    if not isinstance(config, dict):
        raise TypeError("a configuration is a text, bytes or a dict, not %r" % type(config).__name__)
    import json

    return json.dumps(config)


class Edits:
    """What a Checkpoint can become. `edits` is a list of what each edit did, as dicts: renamed, tensors_cast ..."""

    _model: _ckpt.Model
    _source: Any
    edits: List[Dict[str, Any]]

    def _derived(self, model: _ckpt.Model, report: Dict[str, Any]) -> Checkpoint:
        raise NotImplementedError

    def _edit(self, name: str, kind: str, texts: Sequence[Union[None, str, bytes]] = (), others: Names = (), flags: int = 0) -> Checkpoint:
        model, report = self._model.edit(kind, list(texts), names_of(others), flags)
        return self._derived(model, dict(report, edit=name))

    # ---- names. AT: edit only these mappings, and what is below them ----

    def strip_module(self, at: Names = ()) -> Checkpoint:
        """Without the "module." that DistributedDataParallel puts before the keys."""
        return self._edit("strip_module", "strip_prefix", ["module."], at)

    def add_module(self, at: Names = ()) -> Checkpoint:
        """With "module." before the keys of modules, unless all of them have it."""
        made = self._edit("add_module", "add_prefix", ["module."], at)
        report = made.edits[-1]
        places = {place["name"] for place in report["places"]}
        inside: List[bool] = []
        had, starts = 0, [0]
        for name, depth, kind, _, _, _, _, seen, _ in self._model.walk():
            del inside[depth:], starts[depth:]
            had += bool(depth and inside[-1] and name[starts[-1]:].startswith("module."))
            inside.append(kind == 1 and not seen and name in places)
            starts.append(len(name) + 1 if name else 0)
        if had < report["renamed"]:
            return made
        made.close()
        return self._edit("add_module", "select")

    def strip_prefix(self, prefix: str, anywhere: bool = False, at: Names = ()) -> Checkpoint:
        """Without PREFIX before the keys; ANYWHERE: also inside of them, after a dot."""
        return self._edit("strip_prefix", "strip_prefix", [prefix], at, _ANYWHERE if anywhere else 0)

    def strip_wrappers(self, at: Names = ()) -> Checkpoint:
        """Without what DDP, torch.compile, FSDP, Lightning and activation checkpointing put into keys."""
        return self._edit("strip_wrappers", "strip_wrappers", [], at)

    def add_prefix(self, prefix: str, at: Names = ()) -> Checkpoint:
        """With PREFIX before the keys of modules."""
        return self._edit("add_prefix", "add_prefix", [prefix], at)

    def rename(self, *expressions: Union[str, Mapping[str, str]], at: Names = (), if_present: bool = False) -> Checkpoint:
        """With other keys: expressions "s/A/B/" in their order, or one dict {old: new} of whole keys.

        IF_PRESENT: an old name in the dict that no key has is no error.
        """
        if len(expressions) == 1 and isinstance(expressions[0], abc.Mapping):
            pairs = [text for pair in expressions[0].items() for text in pair]
            return self._edit("rename", "rename_map", pairs, at, _SKIP_ABSENT if if_present else 0)
        texts = [one for one in expressions if isinstance(one, str)]
        if len(texts) < len(expressions):
            raise TypeError("rename() takes expressions, or one dict")
        return self._edit("rename", "rename", texts, at)

    def number_keys(self) -> Checkpoint:
        """With numbers for keys again in every dict `state` whose keys are "0", "1" ..."""
        return self._edit("number_keys", "number_keys")

    # ---- devices ----

    def remap(self, devices: Union[str, Mapping[str, str]], device_objects: bool = False, any_device: bool = False) -> Checkpoint:
        """With tensors on other devices: {"cuda:*": "cpu"}, or one device for all.

        DEVICE_OBJECTS: also torch.device values. ANY_DEVICE: types of devices that torch does not know, too.
        """
        flags = (_DEVICE_OBJECTS if device_objects else 0) | (_ANY_DEVICE if any_device else 0)
        if not isinstance(devices, (str, abc.Mapping)):
            raise TypeError("remap() takes a device, or a dict of devices, not %r" % (devices,))
        texts: List[Optional[str]] = [None, devices] if isinstance(devices, str) else [text for pair in devices.items() for text in pair]
        return self._edit("remap", "remap", texts, (), flags)

    # ---- parts ----

    def extract(self, name: str) -> Checkpoint:
        """The value called NAME as all there is."""
        return self._edit("extract", "extract", [name])

    def weights(self, name: Optional[str] = None) -> Checkpoint:
        """The state dict of the weights as all there is: that called NAME, or the largest."""
        return self._edit("weights", "weights", [name])

    def state_dict(self, name: Optional[str] = None) -> Checkpoint:
        """The state dict of a module that was saved whole: of that called NAME, or of the only one."""
        return self._edit("state_dict", "state_dict", [name])

    def select(self, *patterns: str, drop: Names = ()) -> Checkpoint:
        """Only what matches one of PATTERNS: globs over names, or "re:" and a regular expression; and none of DROP."""
        return self._edit("select", "select", patterns, drop)

    def drop(self, *patterns: str) -> Checkpoint:
        """Without what matches one of PATTERNS."""
        return self._edit("drop", "select", (), patterns)

    # ---- values ----

    def set(self, name: str, value: Union[None, bool, int, float, str]) -> Checkpoint:
        """With VALUE as the value called NAME, which is a number, text, bool or None."""
        if not isinstance(value, (bool, int, float, str, type(None))):
            raise TypeError("set() takes a number, text, bool or None, not %r; change what load() gives, and save() that" % (value,))
        if isinstance(value, float) and value - value != 0:  # JSON has no word for these
            return self._edit("set", "set", [name, repr(value)])
        import json

        return self._edit("set", "set", [name, json.dumps(value, ensure_ascii=False)], (), _JSON)

    def cast(self, dtype: str, only: Names = (), skip: Names = (), all: bool = False, to_integer: bool = False,
             as_: Optional[str] = None) -> Checkpoint:
        """With floating weights cast to DTYPE: "bf16", "float16" ...

        ONLY and SKIP choose tensors by name. ALL: also an optimizer's tensors, and those without a dimension.
        TO_INTEGER: fractions may be cut off.

        Parts of quantized weights stay; edits[-1]["quantized_left"] counts them, and dequantize() makes numbers of them. AS_ says how
        weights are quantized, as for dequantize(), or "plain", that they are not: then all floating tensors are cast. Error
        QUANTIZED: a configuration, metadata or names say that weights are quantized, and they are not as these have it.
        """
        flags = (_TO_INTEGER if to_integer else 0) | (_CAST_ALL if all else 0)
        return self._edit("cast", "cast", [as_, dtype, *names_of(only)], skip, flags)

    def dequantize(self, dtype: str, as_: Optional[str] = None, config: Any = None) -> Checkpoint:
        """With plain weights of DTYPE ("bf16", "f16" or "f32") in place of quantized ones: FP8, MXFP4, NVFP4, INT8, INT4 ...

        The weights are those that quantized() lists, under the names and of the shapes that it says; their other parts, and
        the scales of activations, are left out. The numbers are, bit for bit, those of the package that made the format, and
        are made while they are read or saved.

        AS_     how the weights are quantized, whatever a configuration says: "fp8", "compressed-tensors", "modelopt",
                "mxfp4", "gptq", "gptq_v2", "awq", "bitsandbytes", "torchao" or, with the arithmetic of these releases,
                "torchao_0.17" or "auto_gptq_0.6"
        CONFIG  what config.json (or hf_quant_config.json) says, as a text, bytes or a dict, {} for nothing; None: the file
                beside the weights, if there is one

        Without quantized weights the result is an equal checkpoint. Errors: FORMAT (parts are missing, left over, or do not
        fit; it names the tensor), UNSUPPORTED (a form that ckpt does not know, or that can be read in two ways), ARG (another
        DTYPE or AS_), CLASH (a tensor has the name of a plain weight already).
        """
        return self._edit("dequantize", "dequantize", [as_, config_text(config), dtype])

    def quantized(self, as_: Optional[str] = None, config: Any = None) -> Optional[Dict[str, Any]]:
        """The quantized weights, or None if there are none. AS_, CONFIG and errors are those of dequantize().

        "format"   "fp8", "gptq" ...: one of the words of AS_
        "weights"  a list of dicts: "name", which the plain weight has; "scheme", such as "FP8 (e4m3), blocks of 128 x 128";
                   "shape", a tuple, of the plain weight; "nbytes" of the "parts" tensors that it consists of; "items", the
                   name of the one that holds the numbers
        "dropped"  the names of tensors that are of use only beside quantized weights: scales of activations
        """
        return self._model.quantized(as_, config_text(config))

    def compact(self) -> Checkpoint:
        """Without the bytes of storages that no tensor shows."""
        return self._edit("compact", "compact")

    def sanitize(self) -> Checkpoint:
        """With plain data in place of objects, so that torch.load(weights_only=True) takes it."""
        return self._edit("sanitize", "sanitize")

    # ---- output ----

    def save(self, path: Any, overwrite: bool = False, format: Optional[str] = None, profile: Optional[str] = None,
             progress: Any = None, **options: Any) -> Dict[str, Any]:
        """Write it to PATH, a name or an open file, once and with all edits. Returns facts about the new file: nbytes ...

        The bytes are those of `ckpt edit`: what torch.load(), the same edits and torch.save() give. PATH gets its name when
        it is complete. It must not be the file that this was read from: see save_in_place().

        OVERWRITE  whether PATH may be there already
        FORMAT     "torch", "torch-legacy", "safetensors", "dcp", "npz", "npy"; None: that which was read; a directory
                   becomes one file if PATH is named like a file of torch or safetensors
        PROFILE    which torch to write like, "1.6" to "2.14"; None: the one that wrote what was read
        PROGRESS   called with bytes (done, total), or a bar of tqdm, or its class; what it raises ends it
        OPTIONS    no_sync, dry_run, check_casts, hard_link, drop_others, canonical: True or False; threads, alignment, crc,
                   reflink ("auto", "always"), ranks, shard_dim, least_shard, shard_size, shared ("clone", "alias"),
                   byteorder: as <ckpt/save.h> has them
        """
        from ._write import write

        if format is None and not hasattr(path, "write"):
            format = self._format_of(path)
        return write(self._model, path, overwrite=overwrite, format=format, profile=profile, progress=progress, **options)

    def _format_of(self, path: Any) -> Optional[str]:
        """What PATH is by its name, as for `ckpt edit`: None is the format that was read."""
        import os

        text = os.fsdecode(path)
        end = os.path.splitext(text)[1].lower()
        info = self._model.file_info()
        code = info["format_code"]
        folder = code in (_DCP, _HUGGING_FACE, _DCP_SAFETENSORS)
        safetensors = code == _SAFETENSORS or code in (_HUGGING_FACE, _DCP_SAFETENSORS) and not info["profile"]
        if end == ".safetensors":
            if not safetensors:
                raise refuse("%s: an edit keeps the format, and this is no safetensors file; format='safetensors' converts" % text, "ARG")
            return "safetensors" if folder else None
        if end in _TORCH_NAMES and safetensors and not folder:
            raise refuse("%s: an edit keeps the format, and this is a safetensors file; format='torch' converts" % text, "ARG")
        return "torch" if end in _TORCH_NAMES and folder else None

    def save_in_place(self, overwrite: bool = False, free: bool = False, dry_run: bool = False, check_casts: bool = False,
                      progress: Any = None) -> Dict[str, Any]:
        """Let the file that this was read from hold it: `ckpt edit -i`. Bytes of tensors stay where they are.

        FREE: give dead bytes back to the disk. OVERWRITE: also a symbolic link, or a file with several names. What is open
        still shows the old state, and should be closed.
        """
        from ._progress import Told

        with Told(progress) as tell:
            return self._model.save_in_place(overwrite=overwrite, free=free, dry_run=dry_run, check_casts=check_casts, progress=tell)

    def cast_losses(self) -> Dict[str, Dict[str, Any]]:
        """What casts have lost of the numbers that were read, by a save say: "overflow" and "underflow"."""
        return self._model.cast_losses()
