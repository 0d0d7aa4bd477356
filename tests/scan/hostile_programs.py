# SPDX-License-Identifier: Apache-2.0
"""Programs in archives: TorchScript, torch.export, AOTInductor, objects of C++, and the records and indexes that lead to them."""

import json
import re
import struct

from assemble import BAD, DIFFER, NOT_DECIDED, RUN, RUN_OR_DIFFER, Member, call, files, proto, reduce_, sample, torch_zip, value, zip_of
from hostile_objects import NOT_PLAIN, NAME, TENSOR, HOOKS, built_of


def scripts_of_packages():
    """TorchScript in a torch.package, which is compiled where a pickle asks for it."""
    def package(text, body=proto(2, b")\x81"), place=".data/ts_code/code/__torch__/m.py", argument="0", more=()):
        asked = b"(" + value("reduce_package") + NAME("torch.jit._script", "unpackage_script_module") + value((argument,)) + b"tQ"
        inner = NAME("__torch__", "M") + b")\x81" + value({"w": 1}) + b"b"
        return files.archive([(".data/ts_code/0/data.pkl", proto(2, inner) if body is None else body), (".data/ts_code/0/constants.pkl", proto(2, b")")), ("m/w.pkl", proto(2, asked)), (".data/extern_modules", b"torch.jit._script\n"),
                              (".data/python_version", b"3.9.2"), (place, text.encode()), (".data/version", b"6\n"), *more])

    item = zip_of([Member("m/data.pkl", proto(2, value({}))), Member("m/constants.pkl", proto(2, b")")), Member("m/code/__torch__.py", b"class M(Module):\n  x : int\n"), Member("m/version", b"3\n")])
    for name, row in (("alone", item), ("first", item + torch_zip(proto(2, value({"a": 1})))), ("last", torch_zip(proto(2, value({"a": 1}))) + item)):
        sample("script_item_%s.distcp" % name, row, "TorchScript as an item of DCP, which torch 1.13 reads to the end of the file", DIFFER)
    fine = "class M(Module):\n  __parameters__ = [\"weight\", ]\n  weight : Tensor\n  def forward(self, x: Tensor) -> Tensor:\n    return x\n"
    state = "class M(Module):\n  def __setstate__(self, state: Tensor) -> NoneType:\n    %s\n    return None\n"
    second = [(".data/ts_code/1/data.pkl", proto(2, value(1))), (".data/ts_code/1/constants.pkl", proto(2, b")"))]
    sample("package_script_fine.pt", package(fine, None), "TorchScript in a torch.package", {"needs-objects"})
    sample("package_script_fine_two.pt", package(fine, None, more=second), "two of them", {"needs-objects"})
    for name, text in (("file", "x = torch.from_file(\"x\", True, 8)"), ("save", "torch.save(state, \"x\")"), ("loop", "while True:\n      pass"), ("ops", "x = ops.image.write_file(\"x\", state)")):
        sample("package_script_%s.pt" % name, package(state % text, None), "TorchScript in a torch.package whose __setstate__ does more than it may", RUN)
    sample("package_script_default.pt", package(fine.replace("x: Tensor", "x: Tensor, n: Tensor=torch.ones([20000, 20000])"), None), "TorchScript that computes where it is compiled", RUN)
    sample("package_script_pickle.pt", package(fine, BAD), "a call in the pickle of the script", RUN)
    sample("package_script_other.pt", package(fine, None, argument=1), "a number in place of the text of one", RUN | NOT_DECIDED)
    for name, place in (("outside", "m/__init__.py"), ("data", ".data/other/x.py"), ("upper", ".DATA/ts_code/code/x.py"), ("behind", "m/.data/ts_code/code/x.py"), ("near", ".data/ts_codes/x.py")):
        sample("package_script_%s.pt" % name, package(fine, None, place), "a source that is no TorchScript of the package", RUN)


def sources():
    """Code in archives, which a load runs."""
    good, none = proto(2, value({"w": 1})), proto(2, b")")

    def script(name, text, why, wanted):
        sample("script_%s.pt" % name, torch_zip(good, extra=[("constants.pkl", none), ("code/__torch__.py", text.encode())]), why, wanted)

    head = "class M(Module):\n  def __setstate__(self, state: Tensor) -> NoneType:\n    "
    for name, body in (("from_file", "x = torch.from_file(\"out\", True, 10)"), ("spaced", "x = torch . from_file(\"out\", True, 10)"), ("save", "torch.save(state, \"out\")"),
                       ("getattr", "x = getattr(torch, \"from_file\")(\"out\", True, 10)"), ("escaped", "x = getattr(torch, \"from\\137file\")(\"out\", True, 10)"), ("ops", "x = ops.image.write_file(\"out\", state)"),
                       ("aten", "x = ops.aten.from_file(\"out\", True, 10)"), ("rpc", "x = rpc_async(\"w\", f, (state,))"), ("line", "x = torch.\\\n      from_file(\"out\", True, 10)")):
        script(name, head + body + "\n    return None\n", "TorchScript whose __setstate__ reaches out", RUN)
        script("%s_elsewhere" % name, "def f(state: Tensor) -> NoneType:\n    " + body + "\n    return None\n" + head + "return __torch__.f(state)\n", "the same, in a function that it calls", RUN)
    for name, body in (("loop", "while True:\n      pass"), ("for", "for i in range(10):\n      pass"), ("unsafe", "x = torch._sparse_coo_tensor_unsafe(state, state, [1])"), ("segments", "x = torch.segment_reduce(state, \"sum\")"), ("coalesced", "x = torch._coalesced_(state, True)")):
        script(name, head + body + "\n    return None\n", "TorchScript whose __setstate__ hangs, or is not safe", RUN)
        script("%s_helper" % name, "class N(Module):\n  def set_weight_bias(self, state: Tensor) -> NoneType:\n    " + body + "\n    return None\n" + head + "(self).set_weight_bias(state, )\n    return None\n", "the same, in a function that it calls", RUN)
    # a closed language: what calls a method, or a module, of the file without its name, and what is no call of torch's by its full name
    other = "class Z(Module):\n  def %s(self, o: int) -> int:\n    return 1\n"
    for name, body, more in (("operator", "x = state - 1", ""), ("plus", "x = (state)[0] + 1", ""), ("times", "x = [1] * 100000000000", ""), ("equal", "x = (state)[0] == (state)[1]", ""), ("less", "x = state < state", ""),
                             ("item", "x = (state)[0]", other % "__getitem__"), ("set_item", "(state)[0] = 1", other % "__setitem__"), ("truth", "if state:\n      pass", other % "__bool__"), ("in", "x = 1 in state", ""),
                             ("length", "x = torch.len(state)", ""), ("annotate", "x = (state).annotate(1)", ""), ("eq_method", "x = (state).eq(1)", ""), ("eq_of_file", "x = __torch__.eq(1)", ""), ("packer", "x = (self).linear_prepack(1)", ""),
                             ("packer_of", "x = self.ops.quantized.linear_prepack(1)", ""), ("packer_bare", "x = linear_prepack(1)", ""), ("brackets", "x = (state)(1)", ""), ("brackets_of_item", "x = state[0](1)", ""), ("line", "x = (state\n      (1))", ""),
                             ("comment", "x = (state # (\n      (1))", ""), ("variable", "annotate = state\n    x = annotate(1)", ""), ("torch_variable", "torch = state\n    x = torch.eq(1)", ""), ("nested", "def f():\n      return None\n    x = print(1)", ""),
                             ("other_set", "x = (state).set_weight_bias(1)", ""), ("set_of_self", "x = self.self.set_weight_bias(1)", ""), ("module_set", "x = (self).set_weight_bias(1)", "class N(Module):\n  set_weight_bias : __torch__.M\n"),
                             ("gathered", "x = (state)[0][(state)[1]]", ""), ("gathered_more", "x = (state)[0, (state)[1]]", ""), ("sliced", "x = (state)[0:1]", ""), ("cast", "x = unchecked_cast(Tensor, state)", ""), ("nothing", "x = uninitialized(Tensor)", ""), ("new", "x = __torch__.Z.__new__(__torch__.Z)", ""), ("tripled", "x = \"\"\"\"\n    y = print(1)\n    z = \"\"\"\"", ""),
                             ("minus_call", "x = -(state)", ""), ("while", "while True:\n      pass", ""), ("list", "x = [y for y in state]", "")):
        script("run_" + name, more + head + body + "\n    return None\n", "TorchScript whose __setstate__ runs what is not torch's", RUN)
        script("run_%s_helper" % name, more + "class N(Module):\n  def set_weight_bias(self, state: Tensor) -> NoneType:\n    " + body + "\n    return None\n" + head + "(self).set_weight_bias(state, )\n    return None\n", "the same, in the function that sets weights", RUN)
    for number, (line, wanted) in enumerate((("c = -1", RUN), ("c=1", RUN), ("  c  =  'x'", RUN), ("c : int = -1", {"needs-objects"}), ("c : Final[int] = -1", {"needs-objects"}), ("__buffers__ = []", {"needs-objects"}))):
        script("run_assigned_%d" % number, "class M(Module):\n  __parameters__ = []\n  %s\n  def forward(self, x: Tensor) -> Tensor:\n    return x\n" % line, "a name without a type in a class, at which torch 1.13 crashes", wanted)
    script("run_assigned_enum", "class E(Enum):\n  A = -1\nclass M(Module):\n  x : int\n", "an enumeration", {"needs-objects"})
    script("run_assigned_version", "op_version_set = 1\nclass M(Module):\n  x : int\n", "as torch 1.3 begins its sources", {"needs-objects"})
    script("run_argument", "class M(Module):\n  def __setstate__(self, eq: __torch__.Z) -> NoneType:\n    x = eq(1, 1)\n", "a function's name as that of an argument", RUN)
    packing = """class M(Module):
  def __setstate__(self: __torch__.M,
    state: Tuple[int, Tensor, Optional[Tensor], float, bool]) -> NoneType:
    self.groups = (state)[0]
    _7 = (self).set_weight_bias((state)[1], (state)[2], )
    self.scale = -1.5e-05
    self.training = (state)[4]
    return None
  def set_weight_bias(self: __torch__.M,
    w: Tensor,
    b: Optional[Tensor]) -> NoneType:
    padding_mode = self.padding_mode
    if torch.eq(padding_mode, "zeros"):
      _8, _9, = self.stride
      _10 = annotate(List[int], [_8, _9])
      self._packed_params = ops.quantized.conv2d_prepack(w, b, _10, [0, -1], [1, 1], self.groups)
    elif torch.__isnot__(b, None):
      ops.prim.RaiseException("what (is) this: + - * eq?", "builtins.RuntimeError")
    else:
      self._packed_params = ops.quantized.linear_prepack(w, b)
    return None
  def __len__(self: __torch__.M) -> int:
    return torch.len([x for x in self.x]) + 1
"""
    script("fine_packing", packing, "as torch writes it", {"needs-objects"})
    script("fine_packed", head + "self.w = ops.quantized.linear_prepack(state, None)\n    return None\n", "TorchScript that packs its weights", {"needs-objects"})
    script("fine_forward", "def forward(self, x: Tensor) -> Tensor:\n    return torch.from_file(\"x\")\n", "TorchScript that would open a file where it is run, not loaded", {"needs-objects"})
    method = "class M(Module):\n  weight : Tensor\n  def forward(self: __torch__.M,\n    x: Tensor, n: %s) -> Tensor:\n    y = torch.add(x, 1)\n    return y\n"
    constant = "class M(Module):\n  __parameters__ = [\"weight\", ]\n  weight : Tensor\n  def forward(self, x: Tensor) -> Tensor:\n    return x\n  c : Final[%s]\n"
    script("tripled", method % "str=\"\"\" \"\"\", z: int=f(\"\"\" \"\"\")", "a text in three quotes, which torch does not write", RUN)
    for form, text in (("default", method), ("constant", constant)):
        for number, value_ in enumerate(("Tensor=torch.from_file(\"x\", True, 8)", "Tensor=ops.aten.from_file(\"x\", True, 8)", "List[int]=[i for i in range(1000000000000)]", "Tensor=torch.ones([20000, 20000])", "List[int]=[1] * 100000000000", "int=2 ** 3",
                                         "int=print(\"x\")", "str=\"a\" + \"b\"", "Tuple[int, int]=(1, len([2]))", "bool=not True", "int=f", "Tensor=\n      torch.ones([3])")):
            script("%s_%d" % (form, number), text % value_, "TorchScript that computes where it is loaded: %s" % value_, RUN)
        for number, value_ in enumerate(("int=3", "float=-1.5", "float=1e+20", "str=\"a(b)\"", "List[int]=[1, 2]", "Optional[Tensor]=None", "Tuple[int, str]=(1, 'x')", "bool=True", "Dict[str, int]={\"a\": 1}", "float=inf", "Tensor=CONSTANTS.c0", "Device=torch.device(\"cpu\")")):
            script("fine_%s_%d" % (form, number), text % value_, "TorchScript with a literal: %s" % value_, {"needs-objects"})
    inner = "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    %s\n    return x\n"
    for name, text, wanted in (("body", "def g(q: Tensor=torch.from_file(\"x\", True, 8)) -> Tensor:\n      return q", RUN), ("untyped", "def g(q=torch.ones([3])):\n      return q", RUN), ("loop", "for i in range(3):\n      def g(q: int=f(1)) -> int:\n        return q", RUN),
                               ("line", "def g(q: int,\n      n: int=\\\n      f(1)) -> int:\n      return q", RUN), ("two", "def g():\n      def h(q: int=f(1)):\n        return q\n      return 1", RUN), ("number", "def g(q: int=1) -> int:\n      return q", {"needs-objects"})):
        script("default_inside_%s" % name, inner % text, "a default of a function in the body of another, which a load computes", wanted)
        script("default_in_function_%s" % name, "def f(x: Tensor) -> Tensor:\n    %s\n    return x\n" % text, "the same in a function", wanted)
    script("fine_annotations", "class M(Module):\n  __annotations__ = []\n  __annotations__[\"0\"] = __torch__.torch.nn.modules.M\n  __annotations__[\"1\"] = List[Tuple[int, Tensor]]\n", "types of members", {"needs-objects"})
    script("annotations_call", "class M(Module):\n  __annotations__[\"0\"] = torch.ones([3])\n", "a call where a type stands", RUN)
    for name, text in (("brackets", "    return " + "(" * 20000 + "3" + ")" * 20000), ("signs", "    return " + "-" * 50000 + "3"), ("type", "    x : " + "List[" * 20000 + "int" + "]" * 20000 + " = []"), ("nots", "    return " + "not " * 5000 + "True"),
                       ("chain", "    return x" + " + x" * 5000), ("calls", "    return x" + ".a()" * 5000), ("powers", "    return (x" + " **\n x" * 5000 + ")"), ("sums", "    return f(x, x)" + " + f(x, x)" * 5000),
                       ("ifs", "    return " + "x if x else " * 5000 + "x"), ("ands", "    return x" + " and x" * 5000), ("elifs", "    if x:\n      pass\n" + "    elif x:\n      pass\n" * 5000), ("tuples", "    x : " + "Tuple[" * 40 + "int" + ", int]" * 40 + " = y")):
        script("deep_" + name, "def forward(self, x: Tensor) -> Tensor:\n" + text + "\n", "TorchScript too deep for torch's parser", NOT_PLAIN)
    for name, text in (("sum", "    return " + " + ".join(["x"] * 500)), ("list", "    return [" + ", ".join(["-1.5e-05"] * 5000) + "]"), ("lines", "    y = x - 1\n" * 5000 + "    return y"), ("types", "    x : " + "Tuple[int, " * 5 + "int" + "]" * 5 + " = y")):
        script("fine_" + name, "def forward(self, x: Tensor) -> Tensor:\n" + text + "\n", "TorchScript that is long, not deep", {"needs-objects"})
    for depth, wanted in ((3, {"plain"}), (16, {"plain"}), (17, NOT_PLAIN), (20000, NOT_PLAIN)):
        sample("tag_%d.pkl" % depth, proto(2, reduce_("torch.jit._pickle", "restore_type_tag", [1], "List[" * depth + "int" + "]" * depth)), "the text of a type, %d deep" % depth, wanted)
    module = b"import os\nclass A: pass\n"
    for number, name in enumerate(("evilmod.py", "evil/__init__.py", "evil/inner.py")):
        members = [Member("pkg/" + name, module), Member("pkg/.data/extern_modules", b"torch\n"), Member("pkg/.data/version", b"6\n"), Member("pkg/.data/python_version", b"3.11\n"), Member("pkg/model/m.pkl", proto(2, NAME("evilmod", "A") + b")\x81"))]
        sample("package_source_%d.pt" % number, zip_of(members), "a torch.package with a module of its own", NOT_PLAIN | {"inconsistent"})
    for number, kind in enumerate(("constants.pkl", "CONSTANTS.pkl", "archive_format", "serialized_exported_program.json", "model.json", "bytecode.pkl")):
        members = [Member("pkg/mymod.py", module), Member("pkg/.data/extern_modules", b""), Member("pkg/.data/version", b"6\n"), Member("pkg/m/m.pkl", proto(2, NAME("mymod", "A") + b")\x81")), Member("pkg/" + kind, none)]
        sample("package_also_%d.pt" % number, zip_of(members), "a torch.package that is of another kind, too", RUN)
    for number, kind in enumerate(("model.json", "MODEL.json")):
        members = [Member("m/version", b"1\n"), Member("m/" + kind, b'{"mainModule":{"torchscriptArena":{"key":"notes.txt"}}}'), Member("m/notes.txt", b"def f(x: Tensor=torch.from_file(\"x\", True, 4)) -> Tensor:\n  return x\n")]
        sample("script_of_json_%d.pt" % number, zip_of(members), "TorchScript of torch 1.0 to 1.3", NOT_PLAIN)
        sample("script_of_json_too_%d.pt" % number, zip_of(members + [Member("m/constants.pkl", none), Member("m/data.pkl", good)]), "the same beside that of today", NOT_PLAIN)
    for length, wanted in ((511, {"plain"}), (512, NOT_PLAIN | {"inconsistent"})):
        folder = "r" * (length - 10)
        sample("long_name_%d.pt" % length, zip_of([Member(folder + "/data.pkl", good), Member(folder + "/version", b"3\n"), Member(folder + "/byteorder", b"little"[:6])][:2] + [Member(folder + "/byteorder", b"little")]), "a record whose name torch's list cuts at 511 bytes", wanted)
    evil = head.encode() + b"torch.save(state, \"out\")\n    return None\n"
    for name in ("CODE/__torch__.py", "code/__torch__.PY", "Code/__TORCH__.Py"):  # for miniz, and so torch, any case of a letter is the same name
        sample("case_script_%s.pt" % name.replace("/", "_"), torch_zip(good, extra=[("constants.pkl", proto(2, b")")), (name, evil)]), "TorchScript under a name in other letters", RUN)
        packed = [Member("pkg/" + part.replace("code", ".data/ts_code/code").replace("CODE", ".DATA/TS_CODE/CODE").replace("Code", ".data/Ts_code/code"), evil) for part in (name,)]
        packed += [Member("pkg/.data/extern_modules", b"torch\n"), Member("pkg/.data/version", b"6\n"), Member("pkg/.data/python_version", b"3.11\n"), Member("pkg/model/m.pkl", proto(2, b"N"))]
        sample("case_package_%s.pt" % name.replace("/", "_"), zip_of(packed), "the same in a torch.package", NOT_PLAIN | {"inconsistent"})


def formulas():
    """torch.export.load gives the text of sizes that vary to sympy, which lets Python evaluate it."""
    fine = ("Symbol('s0', positive=True, integer=True)", "s0", "2*s0", "Max(1, s0 + u12)", "Mul(Integer(2), Symbol('s0', integer=True))", "Eq(s0, 4)", "(s0*s1)//4", "Pow(Symbol('s0', integer=True), Integer(2))", "s0**2 + 1.5",
            "FloorDiv(s0, 2)", "OpaqueUnaryFn_sqrt(s0)", "", "Integer(9223372036854775807)", "s0**2 + s1**2 + 99999", "Pow(Add(Symbol('s0', integer=True), Integer(-1)), Integer(-1))", "Pow(s0, Rational(1, 2))", "s0**(1/2)", "FloatPow(ToFloat(s0), Float('0.5', precision=53))",
            "Float('1.5e-300', precision=53)", "Mul(Integer(-1), Pow(Pow(s0, Integer(2)), Integer(-1)))", "LShift(1, s0)", "(s0 + 1)**2*(s1 - 1)", "Ne(Mod(s0, 8), 0)", "PowByNatural(s0, 2)", "PowByNatural(Integer(2), Symbol('s0', positive=True, integer=True))", "PowByNatural(2, s0)",
            "Mul(TruncToInt(Mul(Float('1.7', precision=53), ToFloat(Symbol('s0', positive=True, integer=True)))), Integer(2))", "Add(Mul(Integer(2), FloorDiv(Add(Symbol('s1', positive=True, integer=True), Integer(-1)), Integer(2))), Integer(2))")
    bad = ("open('/w/x','w')", "[open('x','w'), Symbol('s0')][1]", "s0.__class__", "().__class__", "lambda: 1", "9**9**9**9", "Pow(9, Pow(9, 999999))", "2**99999999999", "exec('x')", "print(1)", "__import__('os')", "1e999999", "eval('1')",
           "Symbol('s0');1", "{1}", "[1]", "S('x')", "factorial(99999)", "Symbol('open(1)')", "x:=1", "s0 if 1 else s1", "f'{s0}'", "a" * 5000, "1.__class__", "0x10", "s0\nimport os", "getattr", "\u00e9", "99999999999999999999999", "9**9**9", "(9**999)**999", "9**(9**9)", "9**s0**9", "Pow(9, Pow(9, 9))", "Pow(Integer(9), Integer(99999))", "Pow(9, 9*9*9*9*9)", "Pow(Pow(9, 999), 999)", "Pow(9, 9)**9999", "PowByNatural(s0, 99999)", "PowByNatural(9/2, s0*0 + 99999)", "PowByNatural(9, Symbol('s0')*0)", "Pow(9, s0)", "1 << 99999999999", "1<<s0",
           "Symbol('s0')*Symbol('s0'*999999999)", "Symbol(('s'*9)*999999999)", "(1, 2)*999999999", "(s0, s1)", "'s0'*999999999", "('s0')*999999999", "Float('1e99999999', precision=53)", "Float('1.e+99999999')", "Float('1', precision=999999999)", "Float('1', precision = 999999999)", "Float('1', 999999999)", "Float('1', 9*9*9*9*9*9*9*9*9)", "Float('1', dps=999999999)", "Float('1', precision=(999999999))", "(Float)('1', 999999999)", "Float ('1', 999999999)", "Pow (9, 9*9*9*9*9*9)", "Max(Pow)(9, 9*9*9)", "s0 (1)", "(" * 300 + "1" + ")" * 300, "Pow(s0,)", "9**-9**9", "2**1024.5")
    for number, text in enumerate(fine + bad):
        escaped = json.dumps(text)
        for form, key, record in (("old", '"expr_str"', "serialized_exported_program.json"), ("new", '"expr_str"', "m/models/model.json"), ("spelled", '"expr\\u005fstr"', "m/models/model.json"), ("blanks", '"expr_str" \n', "m/a/b/c.json")):
            program = '{"graph_module": {"graph": {"tensor_values": {"a": {"sizes": [{"as_expr": {%s: %s, "hint": {"as_int": 2}}}]}}}}, "metadata": {"note": "expr_str: open()"}}' % (key, escaped)
            members = [Member(record, program.encode())] + ([Member("version", b"8.1")] if form == "old" else [Member("m/archive_format", b"pt2"), Member("m/version", b"3\n")])
            sample("formula_%s_%d.pt2" % (form, number), zip_of(members), "a formula of torch.export: %s" % text[:40], {"needs-objects"} if number < len(fine) else RUN)


def trees():
    """torch.export.load imports what a spec of a tree names, in JSON in a text of JSON."""
    def spec(context, form="collections.defaultdict"):
        return json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": form, "context": context, "children_spec": []}]}])

    def factory(module, name="C"):
        return {"default_factory_module": module, "default_factory_name": name, "dict_context": ["a"]}

    def enum(name):
        return json.dumps([{"__enum__": True, "fqn": name, "name": "y"}])

    def program(text):
        return {"graph_module": {"module_call_graph": [{"fqn": "os.system" if "__enum__" not in text else "layer", "signature": {"in_spec": text, "out_spec": spec("null")}}]}}

    spelled = spec(factory("antigravity")).replace("default_factory_module", "default\\u005ffactory_module")
    turned = spec({"default_factory_name": "system", "default_factory_module": "os"})
    for number, (text, wanted) in enumerate((
        (spec(factory("antigravity", "fly")), RUN), (spec(factory("os", "system")), RUN), (turned, RUN), (spelled, RUN), (spec(enum("this:x"), "builtins.dict"), RUN), (spec(enum("os:system"), "builtins.dict"), RUN),
        (spec(enum("this:x").replace("fqn", "\\u0066qn"), "builtins.dict"), RUN), (spec(factory("m" * 5000)), {"unreadable"}), (spec(factory("mypkg")), {"needs-objects"}), (spec(enum("mypkg.mod:Color"), "builtins.dict"), {"needs-objects"}),
        (spec(factory("builtins", "list")), {"needs-objects"}), (spec(factory("mypkg")).replace(', "dict_context"', ', "default_factory_module": "os", "dict_context"'), RUN), (spec(factory("mypkg")).replace('"C"', '"C", "default_factory_name": "D"'), {"needs-objects"}), (spec(json.dumps(["a"]), "builtins.dict"), {"needs-objects"}),
    )):
        for form in ("old", "new"):
            record = Member("serialized_exported_program.json" if form == "old" else "m/models/model.json", json.dumps(program(text)).encode())
            members = [record] + ([Member("version", b"8.1")] if form == "old" else [Member("m/archive_format", b"pt2"), Member("m/version", b"3\n")])
            sample("tree_%s_%d.pt2" % (form, number), zip_of(members), "a program of torch.export imports what a spec names: %s" % text[:80], wanted)


def program_texts():
    """torch.export.load makes a source in Python of a program, with names as they stand there, and of conditions on sizes."""
    def tree(names):
        inner = {"type": "builtins.dict", "context": json.dumps(names), "children_spec": []}
        return json.dumps([1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", "context": "null", "children_spec": []}, inner]}])

    def program(at, text):
        """A program with TEXT AT some place of the schema."""
        graph = {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [], "tensor_values": {"x": {"dtype": 7}}, "nodes": [
            {"target": "torch.ops.aten.add.Tensor", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}], "outputs": [], "metadata": {}}]}
        signature = {"input_specs": [{"parameter": {"arg": {"name": "p"}, "parameter_name": "d.my-key.w"}}], "output_specs": []}
        call = {"fqn": "", "signature": {"inputs": [], "outputs": [], "in_spec": tree(["a", "in put"]), "out_spec": tree(["a:b (c)"]), "forward_arg_names": ["x"]}}
        whole = {"graph_module": {"graph": graph, "signature": signature, "module_call_graph": [call], "metadata": {}}, "schema_version": {"major": 8, "minor": 1}, "guards_code": [], "torch_version": "<=2.4"}
        node = graph["nodes"][0]
        places = {
            "input": lambda: graph["inputs"][0]["as_tensor"].update(name=text), "value": lambda: graph["tensor_values"].update({text: {}}), "target": lambda: node.update(target=text),
            "keyword": lambda: node["inputs"][0].update(name=text), "subgraph": lambda: node["inputs"].append({"arg": {"as_graph": {"name": text, "graph": {}}}}),
            "subgraph input": lambda: node["inputs"].append({"arg": {"as_graph": {"name": "g", "graph": {"inputs": [{"as_tensor": {"name": text}}]}}}}), "node": lambda: node.update(name=text),
            "number": lambda: node["inputs"].append({"arg": {"as_sym_int": {"as_name": text}}}), "parameter": lambda: signature["input_specs"][0]["parameter"].update(parameter_name=text),
            "constant": lambda: signature["input_specs"].append({"constant_input": {"name": text, "value": {"as_int": 1}}}), "argument": lambda: call["signature"].update(forward_arg_names=["x", text]),
            "module": lambda: call.update(fqn=text), "keyword tree": lambda: call["signature"].update(in_spec=tree(["a", text])), "class": lambda: graph.update(custom_obj_values={"metadata": {"name": text, "class_fqn": "C"}}),
            "unknown": lambda: whole.update(unheard=[{"of": text}]), "version of an op": lambda: whole.update(opset_version={text: 1}),
            "in an array of a name": lambda: node["inputs"][0].update(name=[[text]]), "beside a literal": lambda: node["inputs"].append({"arg": {"as_string": "x", "name": text}}),
            "in a literal": lambda: node["inputs"].append({"arg": {"as_string": {"name": text}}}), "in an object of a tree": lambda: call["signature"].update(in_spec={"name": text}),
            "literal": lambda: node["inputs"].append({"arg": {"as_string": text}}), "literals": lambda: node["inputs"].append({"arg": {"as_strings": ["x", text]}}),
            "trace": lambda: node["metadata"].update(stack_trace=text), "stack": lambda: node["metadata"].update(nn_module_stack="L__self__,,__main__.M;L__self___sub,%s,__main__.S" % text), "result": lambda: call["signature"].update(out_spec=tree([text])), "note": lambda: whole["graph_module"]["metadata"].update(x=text),
            "guard": lambda: whole.update(guards_code=["L['x'].size()[0] > 1", text]),
        }
        places[at]()
        return whole, sorted(places)

    free = ("literal", "literals", "trace", "result", "note")
    code = ("x=open('/w/C','w')", "x:open(1)", "x\nimport os", "x;y", 'x")\rprint(1)\rdef f(self):\r    ("', 'x" + open(1) + "', "a[b]", "f(x)", "x,*y", 'a") or ("', "x#", "lambda:0", "a\\", "{a()}", "[x for x in open(1)]", "a%b", "a\u3000=1", "x\ty", "a\u0000b")
    names = ("x", "p_lin_weight", "größe", "层", "L__self__", "d.my-key", "a/b", "_", "", "layers.0@1")
    guards = ("L['x'].size()[0] >= 2", "(L['x'].size()[0]) == 64 or ((L['x'].size()[0]) % 64) == 0", "L['x'].size()[0] > 3 and (L['x'].size()[0] % 64) == 0", "math.trunc(torch.sym_float(L['x'].size()[0]) ** 0.5) == 7", "1 + (L['x'].size()[0] & 3) >= 0", "L['x'].size()[0] ** 2.0000000000000000 > 1", "(L['flat_args'][0].size()[0] // 2) <= L['flat_args'][1].size()[0] + L['flat_args'][0].size()[0]", "L['l'][1].size()[0] == L['p'].a.size()[0]", "3*L['d']['in put'].stride()[-1] % 4 == 0 and not L['x'].storage_offset() > 1",
              "math.floor(L['x'].size()[0] / 2) != max(2, L['y'].size()[0]**2)", "torch.sym_max(1, L['s']) < 2 if L['x'].size()[0] > 1 else True", "-L['s'] + 0.5 > 1", "math.inf > L['s']")
    not_guards = ("open('/w/C','w')", "1 or open ('x')", "L['x'].f (1)", "xor (1)", "not_ (1)", "2 ** 9999.5", "2 ** .5.real", "2 ** 0.5 ** 9", "1 or (lambda: 1)", "L['x'].size()[0] == __import__('os')", "L['x'].__class__", "(L)(1)", "L['x'](1)", "exec('x')", "9**9**9**9", "1 << 9999999", "'s'*999999", "[1]*9999999", "(1, 2)*9999999", "1) #\nimport os", "lambda: 1",
                  "L[\"x\"] == 1", "L['a\\'].size()", "x", "L['x'].size () [0]", "torch.load('x')", "torch.sym_float.x('x')", "L['x'].to_file('y')", "f'{1}'", "{1}", "L[L['x']]", "print", "L['x'];1", "L['x']:=1", "max['x'] (1)", "1 if (yield) else 2")
    number = 0
    for at in program("input", "x")[1]:
        if at == "guard":
            texts = [(text, {"needs-objects"}) for text in guards] + [(text, {"dangerous"}) for text in not_guards]
        else:
            texts = [(text, {"needs-objects"}) for text in names]
            texts += [(text, {"needs-objects"} if at in free or (at in ("stack", "parameter", "module") and not re.search(r'[\x00-\x1f"\\]', text)) else {"dangerous"}) for text in code]
        for text, wanted in texts:
            for form in ("old", "new") if number % 7 == 0 else ("new",):
                record = Member("serialized_exported_program.json" if form == "old" else "m/models/model.json", json.dumps(program(at, text)[0], ensure_ascii=number % 2 == 0).encode())
                members = [record] + ([Member("version", b"8.1")] if form == "old" else [Member("m/archive_format", b"pt2"), Member("m/version", b"3\n")])
                sample("text_%s_%d.pt2" % (form, number), zip_of(members), "a program of torch.export has as %s: %r" % (at, text), wanted)
            number += 1


def compiled():
    """aoti_load_package, and torch.export.load of 2.14, compile or load what lies below data/aotinductor/, whatever else the archive is."""
    command = json.dumps({"compiler": "true; g++", "compile_only": True, "cflags": []}).encode()
    floats = b"\x93NUMPY\x01\0v\0" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n" + bytes(8)
    of_torch = [("data.pkl", proto(2, value({}))), ("version", b"3\n"), ("byteorder", b"little")]
    package = [(".data/extern_modules", b""), (".data/version", b"6\n"), ("m/m.pkl", proto(2, value({}))), ("version", b"6\n")]
    around = (("", "zip", []), ("m/", "zip", []), ("m/n/", "zip", [(".data/version", b"6\n")]), ("m/", "export", [("archive_format", b"pt2"), ("archive_version", b"0")]),
              ("m/", "save", of_torch), ("m/", "package", package), ("", "npz", [("x.npy", floats)]))
    for number, (folder, form, others) in enumerate(around):
        for name in ("model/m.cpp", "model/m.wrapper.cpp", "model/m_linker_flags.json", "model/m.so", "model/m.o", "model/k.cubin", "other/m.wrapper_metadata.json", "m.cpp", "model/a/b.so", "model/../../../x"):
            members = [Member("m/" * (form != "npz" and bool(folder)) + n, b) for n, b in others] + [Member("%sdata/aotinductor/%s" % (folder, name), command)]
            sample("compiled_%s_%d_%s.pt2" % (form, number, name.replace("/", "_")), zip_of(members), "a file that AOTInductor compiles or loads", RUN)
    for number, name in enumerate(("data\\aotinductor\\model\\m.cpp", "m/data\\aotinductor/model/m.cpp", "DATA/AOTInductor/model/m.cpp", "m/data//aotinductor/model/m.cpp", "data///aotinductor//model//m.cpp", "m//data////aotinductor/m.so",
                                   "m/data/constants/m.cpp", "m/data/constants/a/b/m.so", "m/data//constants/./m.CPP", "m\\data\\constants\\m.o", "data/constants/m.wrapper.cpp", "m/n/data/constants/m.so", "m/data/./aotinductor/model/m.cpp", "m/data/.//aotinductor/m.cpp", "m/data\\/aotinductor/m.cpp",
                                   # torch 2.9 asks how names begin
                                   "data/constantsw.wrapper.cpp", "m/data/constants.so", "m/data/constants.cpp", "data/constants w/x.cpp", "m/data/constants_/x.o", "data/aotinductor.cpp", "m/data/aotinductors/m.so")):
        sample("compiled_spelled_%d.pt2" % number, zip_of([Member(name, command)]), "a file that AOTInductor compiles, by another spelling", RUN)
    for number, name in enumerate(("m//x", "m/a//b", "m/./x", "m/a/../x", "m//data.pkl")):
        sample("folder_without_name_%d.pt" % number, files.archive([("m/" + n, b) for n, b in of_torch] + [(name, b"x")], name=""), "a name that goes through a folder without a name", DIFFER)
    for number, name in enumerate(("m/data/constants/tensor_0", "m/data/constants/m.txt", "m/data/constants", "data/constants", "data\\constants", "m/DATA//constants", "a/b/data/constants", "m/mydata/constants/m.cpp", "m/constants/m.cpp", "m/data/constants.txt", "m/data/constantsw_compile_flags.json", "mydata/constants.cpp", "data/aotinductor", "data//aotinductor", "data.aotinductor/m.txt", "data/aotinductor.txt", "data/aotinductors/m.txt", "aotinductor/m.txt")):
        sample("compiled_fine_%d.zip" % number, zip_of([Member(name, b"text")]), "a name that is nearly that of AOTInductor", {"needs-objects"} if re.search(r"\bdata[/\\]+constants", name.lower()) else {"plain"})


def packed_storages():
    """torch.package's importer unpickles a record by its name, though a pickle says that it is a storage, and though it is packed."""
    stored = b"(" + value("storage") + NAME("torch", "FloatStorage") + value("0") + value("cpu") + b"K\x04tQ"
    asked = proto(2, reduce_("torch._utils", "_rebuild_tensor_v2", stored, 0, (4,), (1,), False, HOOKS))
    evil = proto(2, NAME("builtins", "exec") + value(("pass",)) + b"R")
    texts = b"(lp0\n" + b"S'x'\np1\na" * 20
    inside = {"pickle": evil, "pickle_far": proto(2, value("x" * 100000) + b"0" + evil[2:-1]), "text": b"cbuiltins\nexec\n(S'pass'\ntR.", "text_far": texts + b"0cbuiltins\nexec\n(S'pass'\ntR.", "archive": torch_zip(evil), "behind": evil + bytes(600)}
    for name, data in inside.items():
        for method in (0, 8):
            for record in ("data/0", "constants/0", "DATA/0", ".data/0.storage", "tensors/0"):
                members = [Member("pkg/" + record, data, method), Member("pkg/.data/extern_modules", b"torch._utils\ncollections\nbuiltins\n"), Member("pkg/.data/version", b"6\n"), Member("pkg/m/m.pkl", asked)]
                sample("package_storage_%s_%d_%s.pt" % (name, method, record.replace("/", "_").lower() + "_" * record.isupper()), zip_of(members), "a record of a torch.package that is a storage, and a pickle", RUN_OR_DIFFER | NOT_DECIDED)
            # whoever unpacks it could take it for a file
            sample("storage_%s_%d.pt" % (name, method), zip_of([Member("m/data.pkl", asked), Member("m/data/0", data, method), Member("m/version", b"3\n")]), "a storage that is a pickle", RUN_OR_DIFFER | NOT_DECIDED)
    for number, data in enumerate((bytes(16), struct.pack("<4f", 1, 2, 3, 4), b"\x80\x02" + bytes(14), b"PK\3\5" + bytes(12), b"(" * 16, bytes(range(16)))):
        sample("storage_fine_%d.pt" % number, zip_of([Member("m/data.pkl", asked), Member("m/data/0", data, 8), Member("m/version", b"3\n")]), "numbers that are packed", {"plain"})


def indexes():
    """dcp.load asks an index for its attributes, whatever its class is."""
    state = value({"state_dict_metadata": {}, "planner_data": None, "storage_data": {}, "storage_meta": None})
    for number, (module, name) in enumerate((("torch.distributed.checkpoint.metadata", "StorageMeta"), ("torch.nn.modules.container", "ModuleDict"), ("mypkg", "Foo"))):
        for form, body in (("newobj", NAME(module, name) + b")\x81" + state + b"b"), ("slots", NAME(module, name) + b")\x81" + value(None) + state + b"\x86b"), ("arguments", NAME(module, name) + b"(" + value({}) + value(None) + value({}) + b"t\x81")):
            sample("index_%s_%d.metadata" % (form, number), proto(2, body), "an index of another class, which is read, or not decided", NOT_PLAIN | ({"needs-objects"} if form == "newobj" else set()))
    for name, what in {"logger": reduce_("logging", "getLogger", "torch"), "status": reduce_("http", "HTTPStatus", 200), "color": reduce_("mypkg", "Color", "red"), "signal": NAME("signal", "SIGINT")}.items():
        sample("index_shared_%s.metadata" % name, proto(2, what), "an index that all of the process has", NOT_PLAIN)
    for module, name in (("torch", "FloatStorage"), ("builtins", "dict"), ("mypkg", "Foo"), ("decimal", "Decimal")):
        sample("index_class_%s_%s.metadata" % (module, name), proto(2, NAME(module, name)), "an index that is a class, of which torch sets an attribute", NOT_PLAIN)


def objects_of_cpp():
    """torch.classes.aten.OpaqueObject of torch 2.14 unpickles the text that is its state."""
    for kind, name in (("opaque", "aten\nOpaqueObject"), ("dotted", "\naten.OpaqueObject"), ("upper", "ATEN\nOpaqueObject"), ("group", "c10d\nProcessGroup"), ("stream", "cuda\nStream"), ("worker", "dist_rpc\nWorkerInfo")):
        cls = b"c__torch__.torch.classes" + (b"." if name[0] != "\n" else b"") + name.encode() + b"\n"
        body = proto(2, cls + b")\x81" + value("gAJjb3MKc3lzdGVtCg==") + b"b")
        sample("cpp_%s.pt" % kind, torch_zip(body), "an object of C++ that loads what it is given, or connects", RUN)
        sample("cpp_%s_inside.pt" % kind, torch_zip(proto(2, built_of("__torch__", "M", {"q": cls + b")\x81" + value("gAJjb3MKc3lzdGVtCg==") + b"b"})), extra=[("constants.pkl", proto(2, b")")), ("code/__torch__.py", b"class M(Module):\n  q : Any\n")]), "the same in TorchScript", RUN)
        sample("cpp_%s_constant.pt" % kind, torch_zip(proto(2, built_of("__torch__", "M", {"w": 1})), extra=[("constants.pkl", proto(2, cls + b")\x81" + value("gAJj") + b"b\x85")), ("code/__torch__.py", b"class M(Module):\n  w : int\n")]), "the same as a constant", RUN)
        sample("cpp_%s_export.pt2" % kind, zip_of([Member("m/archive_format", b"pt2"), Member("m/version", b"3\n"), Member("m/data/constants/custom_obj_0", torch_zip(body))]), "the same in a program of torch.export", RUN)
        sample("cpp_%s_package.pt" % kind, zip_of([Member("m/.data/extern_modules", b""), Member("m/.data/version", b"6\n"), Member("m/.data/ts_code/0/data.pkl", body)]), "the same in a torch.package", RUN)
    packed = proto(2, b"c__torch__.torch.classes.quantized\nLinearPackedParamsBase\n)\x81" + value((TENSOR, None)) + b"b")
    sample("fine_cpp.pt", torch_zip(packed), "packed weights", {"needs-objects"})


def weights_without_bytes():
    """torch.export.load of torch 2.14 makes zeros of a weight that has no bytes, as many as the JSON says."""
    sizes = [{"as_int": 32768}, {"as_int": 16384}]

    def archive(sizes, path="weight_0", record="weight_0", data=b"", folder="weights", config=None, **about):
        meta = {"dtype": 7, "sizes": sizes, "requires_grad": False, "device": {"type": "cpu", "index": None}, "strides": [{"as_int": 1}] * len(sizes), "storage_offset": {"as_int": 0}, "layout": 7}
        text = json.dumps({"config": {"l.weight": {"path_name": path, "is_param": True, "use_pickle": False, "tensor_meta": meta, **about}}}) if config is None else config
        return zip_of([Member("m/archive_format", b"pt2"), Member("m/version", b"3\n"), Member("m/data/%s/model_%s_config.json" % (folder, folder), text.encode()), Member("m/data/%s/%s" % (folder, record), data)])

    samples = {"sizes": archive(sizes), "constants": archive(sizes, folder="constants"), "upper": archive(sizes, record="WEIGHT_0"), "folder": archive(sizes, path="a/", record="a/"), "no_path": archive(sizes, path="", record=""), "in_folder": archive(sizes, path="a/weight_0", record="a/weight_0"), "pickled": archive(sizes, use_pickle=0), "no_sizes": archive([]), "formula": archive([{"as_expr": {"expr_str": "s0", "hint": {"as_int": 4}}}]),
               "nowhere": archive(sizes, path="../weights/weight_0"), "broken": archive(sizes, config='{"config": {"path_name": '), "no_config": archive(sizes, config='{"path_name": "weight_0"}'), "real": archive([{"as_int": 1.5}])}
    for name, data in samples.items():
        sample("weight_of_zeros_%s.pt2" % name, data, "a weight without bytes", NOT_PLAIN)
    for name, data in {"none": archive([{"as_int": 3}, {"as_int": 0}]), "bytes": archive([{"as_int": 4}], data=bytes(16))}.items():
        sample("fine_weight_%s.pt2" % name, data, "a weight as torch writes it", {"needs-objects"})


formulas()
program_texts()
compiled()
packed_storages()
trees()
indexes()
objects_of_cpp()
weights_without_bytes()
sources()
scripts_of_packages()
