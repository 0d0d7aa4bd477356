# SPDX-License-Identifier: Apache-2.0
"""Tricks with opcodes: pickles that CPython runs up to the call, and that readers of pickles get wrong."""

import struct

from assemble import (
    BAD,
    COMMAND,
    DIFFER,
    NOT_DECIDED,
    RUN,
    RUN_OR_DIFFER,
    SYSTEM,
    SYSTEM_CALL,
    at_line,
    blob,
    call,
    files,
    frame,
    named,
    proto,
    reduce_,
    sample,
    short,
    torch_zip,
    value,
)

DATA = value({"weight": [1, 2]})
TEXT = files.text


def names():
    """How the name of a function gets onto the stack."""
    put = (
        at_line("os") + b"p2\n0" + at_line("system") + b"p3\n0" + at_line("torch") + b"p0\n0" + at_line("LongStorage") + b"p1\n0"
    )
    sample(
        "name_memo_text.pkl",
        put + b"g2\ng3\n\x93(" + at_line(COMMAND) + b"tR.",
        "the last strings are others than the ones that count",
        RUN,
        "picklescan issue 22",
    )
    sample(
        "name_first_opcode.pkl",
        b"S'os'\nS'system'\n\x93S'true'\n\x85R.",
        "the name begins with the first opcode, as STRING",
        RUN,
        "picklescan GHSA-9gvj-pp9x-gcfr",
    )
    sample(
        "name_binput.pkl",
        proto(4, short("os") + b"q\x05" + short("system") + b"q\x060" + b"h\x06\x93" + short(COMMAND) + b"\x85R"),
        "BINPUT and BINGET",
    )
    sample(
        "name_long_binput.pkl",
        proto(
            4,
            short("os")
            + b"r\x00\x00\x01\x000"
            + short("system")
            + b"r\x01\x00\x01\x000j\x00\x00\x01\x00j\x01\x00\x01\x00\x93"
            + short(COMMAND)
            + b"\x85R",
        ),
        "LONG_BINPUT of 65536",
    )
    sample(
        "name_memoize_order.pkl",
        proto(
            4,
            short("os")
            + b"\x94"
            + short("x")
            + b"q\x050"
            + short("system")
            + b"\x940"
            + b"h\x02\x93"
            + short(COMMAND)
            + b"\x85R",
        ),
        "MEMOIZE counts what is in the memo, not the highest number",
    )
    sample(
        "name_memo_overwritten.pkl",
        proto(
            4, short("json") + b"q\x000" + short("os") + b"q\x000h\x00" + short("system") + b"\x93" + short(COMMAND) + b"\x85R"
        ),
        "a memo entry is overwritten",
    )
    sample(
        "name_dup.pkl",
        proto(4, short("os") + b"2\x93"),
        "STACK_GLOBAL of os.os by DUP, only named",
        RUN | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "name_dup_posix.pkl",
        proto(4, short("system") + b"q\x000" + short("posix") + b"2" + b"0h\x00\x93" + short(COMMAND) + b"\x85R"),
        "DUP and POP in between",
    )
    sample(
        "name_pop_mark.pkl",
        proto(4, short("os") + b"(" + short("x") + short("y") + b"1" + short("system") + b"\x93" + short(COMMAND) + b"\x85R"),
        "POP_MARK in between",
    )
    sample(
        "name_pop_of_mark.pkl",
        proto(4, short("os") + b"(0" + short("system") + b"\x93" + short(COMMAND) + b"\x85R"),
        "POP takes a mark",
    )
    sample(
        "name_inst_str.pkl",
        proto(4, b"(" + short("os") + b"ibuiltins\nstr\nq\x00h\x00" + short("system") + b"\x93" + short(COMMAND) + b"\x85R"),
        "the name of the module is made by str()",
        RUN | NOT_DECIDED,
    )
    sample(
        "name_joined.pkl",
        proto(
            4,
            call(call(named("builtins", "getattr"), short(""), short("join")), [short("o"), short("s")])
            + short("system")
            + b"\x93"
            + short(COMMAND)
            + b"\x85R",
        ),
        "the name is joined of letters",
        RUN,
        "modelscan issue 331",
    )
    sample(
        "name_reduce_str.pkl",
        proto(4, reduce_("builtins", "str", "os") + short("system") + b"\x93" + short(COMMAND) + b"\x85R"),
        "str() by REDUCE",
        RUN | NOT_DECIDED,
    )
    sample(
        "name_decoded.pkl",
        proto(4, reduce_("_codecs", "encode", "os", "latin1") + short("system") + b"\x93"),
        "bytes as a name",
        RUN | NOT_DECIDED | DIFFER,
    )
    sample(
        "name_bytes_later.pkl",
        proto(4, SYSTEM_CALL + b"0C\x02os" + b"p1\n" + short("system") + b"p2\ng1\ng2\n\x93"),
        "bytes as a name, after the call",
    )
    sample(
        "name_int_later.pkl",
        proto(4, SYSTEM_CALL + b"0J\x2a\x00\x00\x00\x94" + short("os") + b"\x94h\x00h\x01\x93"),
        "a number as a name, after the call",
    )
    sample(
        "name_bytearray_later.pkl",
        proto(5, SYSTEM_CALL + b"0\x96" + struct.pack("<Q", 6) + b"systemp1\n" + short("os") + b"p2\ng2\ng1\n\x93"),
        "a bytearray as a name, after the call",
    )
    sample(
        "name_memo_missing_later.pkl",
        proto(4, SYSTEM_CALL + b"0" + short("os") + b"\x94h\x03h\x00\x93"),
        "a memo entry that is not there, after the call",
    )
    for number, letters in enumerate(("\\u006fs", "o\\u0073", "\\u006f\\u0073")):
        sample("name_escaped_%d.pkl" % number, b"V" + letters.encode() + b"\nVsystem\n\x93Vtrue\n\x85R.", "escapes in UNICODE")
    sample("name_string_escaped.pkl", b"S'\\x6f\\x73'\nS\"sys\\164em\"\n\x93S'true'\n\x85R.", "escapes in STRING")
    sample("name_short_binstring.pkl", b"U\x02osU\x06system\x93U\x04true\x85R.", "SHORT_BINSTRING")
    sample("name_binstring.pkl", b"T\x02\x00\x00\x00osT\x06\x00\x00\x00system\x93U\x04true\x85R.", "BINSTRING")
    sample(
        "name_binunicode8.pkl",
        proto(4, b"\x8d" + struct.pack("<Q", 2) + b"os\x8d" + struct.pack("<Q", 6) + b"system\x93" + short(COMMAND) + b"\x85R"),
        "BINUNICODE8",
    )
    sample(
        "name_python2.pkl", b"ccommands\ngetoutput\n(S'true'\ntR.", "a module of Python 2 that loaders translate to subprocess"
    )
    sample(
        "name_python2_after_4.pkl",
        b"\x80\x04\x80\x02ccommands\ngetoutput\n(S'true'\ntR.",
        "PROTO 4, then PROTO 2: names are translated again",
    )
    sample(
        "name_python2_run.pkl", proto(2, call(files.glob("commands", "run"), ["true"])), "commands.run, which only subprocess has"
    )
    sample(
        "name_python2_stack.pkl", b"\x8c\x08commands\x8c\x09getoutput\x93(S'true'\ntR.", "the same by STACK_GLOBAL without PROTO"
    )
    sample(
        "name_dots_after_2.pkl", b"\x80\x02\x80\x04ctorch\nos.system\n(S'true'\ntR.", "PROTO 2, then PROTO 4: dots are followed"
    )
    sample(
        "name_fullwidth.pkl",
        proto(4, named("ｏｓ", "system") + short(COMMAND) + b"\x85R"),
        "a module in wide letters: unknown, and called",
        {"dangerous", "needs-objects"},
    )
    sample(
        "name_upper.pkl",
        reduce_("OS", "system", COMMAND) + b".",
        "OS, which a case-insensitive disk may have",
        {"dangerous", "needs-objects"},
    )
    sample(
        "name_carriage_return.pkl",
        b"cos\r\nsystem\n(S'true'\ntR.",
        "CR before the LF is a part of the name",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "name_space.pkl",
        b"cos \nsystem\n(S'true'\ntR.",
        "a blank behind the name",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample("name_nul.pkl", b"cos\0x\nsystem\n(S'true'\ntR.", "a NUL in the name", RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"})
    sample("name_not_utf8.pkl", SYSTEM_CALL + b"0cmod\n\xf8\n.", "a name that is not UTF-8, after the call")
    sample("name_package.pkl", b"cos.path\nos.system\n(S'true'\ntR.", "os.path.os.system", {"dangerous", "needs-objects"})
    sample("name_main.pkl", b"c__main__\n__builtins__\n.", "__main__.__builtins__", {"dangerous", "needs-objects"})
    sample(
        "name_long_module.pkl",
        proto(4, b"X" + struct.pack("<I", 70000) + b"a" * 70000 + short("b") + b"\x93)R"),
        "a module of 70000 letters",
        {"dangerous", "needs-objects"} | NOT_DECIDED,
    )
    sample(
        "name_storage_elsewhere.pt",
        torch_zip(proto(2, call(files.glob("evil", "FloatStorage"), COMMAND))),
        "a storage class of another module: torch.load maps the name, others import evil",
        {"dangerous", "needs-objects", "inconsistent"},
    )


def calls():
    """How a function is called, and where the call hides."""
    sample(
        "call_newobj.pkl",
        proto(2, files.glob("subprocess", "Popen") + value((["true"],)) + b"\x81"),
        "NEWOBJ of Popen",
        {"dangerous", "needs-objects"},
    )
    sample(
        "call_newobj_ex.pkl",
        proto(4, named("subprocess", "Popen") + value((["true"],)) + value({"shell": True}) + b"\x92"),
        "NEWOBJ_EX of Popen",
        {"dangerous", "needs-objects"},
    )
    sample("call_obj.pkl", b"(cpty\nspawn\nS'true'\no.", "OBJ of a function", RUN, "fickling GHSA-r7v6-mfhq-g3m2")
    sample(
        "call_obj_dropped.pkl",
        proto(4, b"(" + named("smtplib", "SMTP") + short("127.0.0.1") + b"o0N"),
        "the result of OBJ is dropped",
        RUN,
        "fickling GHSA-mxhj-88fx-4pcv",
    )
    sample("call_inst_nothing.pkl", b"(ios\nabort\n.", "INST without arguments")
    sample("call_inst_exec.pkl", b"(S'1'\ni__builtin__\nexec\n.", "INST of exec")
    sample("call_obj_memo.pkl", SYSTEM + b"p0\n0(g0\nS'true'\no.", "OBJ of a function out of the memo")
    sample(
        "call_then_build.pkl",
        proto(4, call(named("socketserver", "TCPServer"), short("a")) + b"}b"),
        "REDUCE, then BUILD",
        RUN,
        "fickling GHSA-mhc9-48gj-9gp3",
    )
    sample("call_left_on_stack.pkl", proto(2, SYSTEM_CALL + DATA), "the result stays below what is returned")
    sample("call_left_below_mark.pkl", proto(2, SYSTEM_CALL + b"(" + DATA), "the same, below a mark")
    sample("call_popped.pkl", proto(2, SYSTEM_CALL + b"0" + DATA), "the result is dropped by POP")
    sample("call_pop_marked.pkl", proto(2, b"(" + SYSTEM_CALL + b"1" + DATA), "the result is dropped by POP_MARK")
    sample("call_only_memo.pkl", proto(2, SYSTEM_CALL + b"q\x000" + DATA), "the result is in the memo only")
    sample("call_memo_overwritten.pkl", proto(2, SYSTEM_CALL + b"q\x000K\x01q\x000" + DATA), "the result was in the memo")
    sample("call_as_key.pkl", proto(2, b"}" + SYSTEM_CALL + b"K\x01s"), "the result is a key")
    sample(
        "call_overwritten_item.pkl",
        proto(2, b"}" + TEXT("a") + SYSTEM_CALL + b"s" + TEXT("a") + b"K\x01s"),
        "the result is overwritten in its dict",
    )
    sample(
        "call_in_second_state.pkl",
        proto(
            2,
            files.glob("collections", "OrderedDict")
            + b")R"
            + value({"_metadata": 1})
            + b"b"
            + value({"_metadata": SYSTEM_CALL})
            + b"b",
        ),
        "BUILD twice, of the same names",
    )
    sample(
        "call_in_other_state.pkl",
        proto(2, files.glob("collections", "OrderedDict") + b")R" + value({"a": 1}) + b"b" + value({"b": SYSTEM_CALL}) + b"b"),
        "BUILD twice, of other names",
    )
    sample(
        "call_in_state.pt",
        torch_zip(proto(2, files.glob("collections", "OrderedDict") + b")R" + value({"_metadata": SYSTEM_CALL}) + b"b")),
        "in _metadata",
    )
    sample(
        "call_in_tensor_argument.pt",
        torch_zip(proto(2, files.tensor().replace(b"\x89", SYSTEM_CALL))),
        "requires_grad is the result of os.system",
    )
    sample(
        "call_in_storage_id.pt",
        torch_zip(proto(2, files.tensor().replace(TEXT("cpu"), SYSTEM_CALL))),
        "the device in a storage's id is the result",
    )
    sample(
        "call_in_hooks.pt",
        torch_zip(proto(2, files.tensor().replace(files.glob("collections", "OrderedDict") + b")R", SYSTEM_CALL))),
        "the hooks are the result",
    )
    sample(
        "call_of_memo.pt",
        torch_zip(proto(2, b"}" + TEXT("f") + SYSTEM + b"q\x07s" + TEXT("w") + b"h\x07" + value((COMMAND,)) + b"Rs")),
        "the function is a value first, and called later",
    )
    sample(
        "call_list_arguments.pkl",
        proto(2, SYSTEM + value([COMMAND]) + b"R"),
        "REDUCE with a list: only loaders in Python do it",
        RUN_OR_DIFFER,
    )
    sample(
        "call_tuple_made.pkl",
        proto(2, SYSTEM + call(files.glob("__builtin__", "tuple"), [COMMAND]) + b"R"),
        "the arguments are made by tuple()",
        RUN_OR_DIFFER,
    )
    sample(
        "call_arguments_memo.pkl",
        proto(2, value((COMMAND,)) + b"q\x000" + SYSTEM + b"h\x00R"),
        "the arguments come out of the memo",
    )
    sample(
        "call_twice.pkl", proto(2, files.glob("collections", "OrderedDict") + b")R0" + SYSTEM_CALL), "a good call, then a bad one"
    )
    sample(
        "call_of_result.pkl",
        proto(2, call(files.glob("types", "SimpleNamespace")) + b")R"),
        "the result of a class is called",
        {"dangerous", "needs-objects", "inconsistent"} | NOT_DECIDED,
    )
    sample("call_of_data.pkl", proto(2, DATA + b")R"), "a dict is called", RUN_OR_DIFFER | NOT_DECIDED)
    sample(
        "call_of_text.pkl",
        proto(2, TEXT("os.system") + value((COMMAND,)) + b"R"),
        "a text is called",
        RUN_OR_DIFFER | NOT_DECIDED,
    )
    sample(
        "change_sys_modules.pkl",
        proto(2, files.glob("sys", "modules") + TEXT("json") + files.glob("os", "path") + b"s"),
        "SETITEM on sys.modules",
        RUN | NOT_DECIDED,
    )
    sample(
        "change_sys_modules_marked.pkl",
        proto(
            2,
            files.glob("sys", "modules")
            + b"("
            + TEXT("sys")
            + files.glob("sys", "modules")
            + b"u0"
            + call(files.glob("sys", "get"), "os"),
        ),
        "sys.modules['sys'] = sys.modules, then sys.get('os')",
    )
    sample(
        "change_sys_path.pkl",
        proto(2, files.glob("sys", "path") + TEXT("/tmp/x") + b"a0N"),
        "APPEND to sys.path",
        RUN | NOT_DECIDED,
    )
    sample(
        "change_environ.pkl",
        proto(2, files.glob("os", "environ") + TEXT("LD_PRELOAD") + TEXT("x.so") + b"s0N"),
        "SETITEM on os.environ",
        RUN | NOT_DECIDED,
    )
    sample(
        "change_class.pkl",
        proto(2, files.glob("torch.nn.modules.linear", "Linear") + value({"forward": files.glob("os", "system")}) + b"b"),
        "BUILD on a class",
        RUN | NOT_DECIDED | DIFFER,
    )
    sample(
        "change_class_slots.pkl",
        proto(
            2, files.glob("torch.nn.parameter", "Parameter") + b"N" + value({"__new__": files.glob("os", "system")}) + b"\x86b"
        ),
        "BUILD with slots on a class that torch allows",
        RUN | NOT_DECIDED | DIFFER,
    )
    sample(
        "change_function.pkl",
        proto(2, files.glob("torch._utils", "_rebuild_tensor_v2") + b"N" + value({"__code__": 1}) + b"\x86b"),
        "BUILD on a function that torch allows",
        RUN | NOT_DECIDED | DIFFER,
    )
    sample(
        "change_tensor_items.pt",
        torch_zip(proto(2, files.tensor() + b"K\x00K\x01s")),
        "SETITEM on a tensor",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "change_path_append.pkl",
        proto(2, files.glob("sys", "path") + b"(" + TEXT("x") + b"e0N"),
        "APPENDS to sys.path",
        RUN | NOT_DECIDED,
    )
    sample("extension_1.pkl", proto(2, b"\x82\x07)R"), "EXT1: whatever the registry of the loader holds", RUN_OR_DIFFER)
    sample("extension_2.pkl", proto(2, b"\x83\x07\x01"), "EXT2, only named", RUN_OR_DIFFER)
    sample("extension_4.pkl", proto(2, b"\x84\x07\x00\x00\x01)R"), "EXT4", RUN_OR_DIFFER)
    sample(
        "persistent_text.pt",
        torch_zip(b"Pos.system\n."),
        "PERSID as text, which torch never writes",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "persistent_tuple.pt",
        torch_zip(proto(2, value(("evil", "x")) + b"Q")),
        "a persistent id that is none of torch's",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "persistent_module.pt",
        torch_zip(proto(2, value(("module", files.glob("evil", "Net"), "x.py", "import os")) + b"Q)R")),
        "a module class with its source, in an archive",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    sample(
        "persistent_call.pt",
        torch_zip(proto(2, value(("storage", files.glob("torch", "FloatStorage"), SYSTEM_CALL, "cpu", 4)) + b"Q")),
        "the key of a storage is the result of os.system",
    )
    sample("buffer_outside.pkl", proto(5, SYSTEM_CALL + b"0\x97"), "NEXT_BUFFER after the call")


def ends():
    """Where a pickle ends, or does not."""
    sample("end_no_stop.pkl", b"\x80\x02" + SYSTEM_CALL, "STOP is missing, the call has been made")
    sample(
        "end_truncated_operand.pkl",
        b"cbuiltins\nexec\n(X\x01\x00\x00\x001tRX.",
        "an operand is cut off after the call",
        RUN,
        "fickling issue 138",
    )
    sample("end_unknown_opcode.pkl", b"\x80\x02" + SYSTEM_CALL + b"\xff.", "an unknown opcode after the call")
    sample("end_stack_underflow.pkl", b"\x80\x02" + SYSTEM_CALL + b"000000.", "too much is popped after the call")
    sample("end_bad_memo.pkl", b"\x80\x02" + SYSTEM_CALL + b"h\x63.", "a GET of nothing after the call")
    sample("end_bad_build.pkl", b"\x80\x02" + SYSTEM_CALL + b"K\x01K\x02b.", "BUILD of a number after the call")
    sample("end_bad_proto.pkl", b"\x80\x02" + SYSTEM_CALL + b"\x80\x63.", "protocol 99 after the call")
    sample("end_bad_int.pkl", b"\x80\x02" + SYSTEM_CALL + b"Ixyz\n.", "an INT that is none after the call")
    sample("end_bad_utf8.pkl", b"\x80\x02" + SYSTEM_CALL + b"X\x01\x00\x00\x00\xff.", "a text that is not UTF-8 after the call")
    sample("end_negative_length.pkl", b"\x80\x02" + SYSTEM_CALL + b"T\xff\xff\xff\xff.", "a negative length after the call")
    sample("end_huge_length.pkl", b"\x80\x04" + SYSTEM_CALL + b"\x8e" + b"\xff" * 8 + b".", "a length of 2^64-1 after the call")
    sample("end_bad_get_text.pkl", SYSTEM_CALL + b"g_\n.", "a GET of no number after the call")
    sample("end_zip.pt", torch_zip(b"\x80\x02" + SYSTEM_CALL), "no STOP in data.pkl")
    sample("end_reduce_last.pkl", b"\x80\x02" + SYSTEM_CALL[:-1] + b"R", "REDUCE is the last byte")
    sample("end_two_pickles.pkl", proto(2, DATA) + BAD, "a second pickle behind the first", RUN_OR_DIFFER)
    sample("end_two_pickles_zip.pt", torch_zip(proto(2, DATA) + BAD), "a second pickle in data.pkl", RUN_OR_DIFFER)
    sample("end_many_pickles.pkl", proto(2, DATA) * 50 + BAD, "50 pickles, then the bad one", RUN_OR_DIFFER)
    sample("end_garbage.pkl", BAD + b"\n\n\t\t", "garbage behind a bad pickle")
    sample("end_garbage_behind_good.pkl", proto(2, DATA) + b"\x00garbage", "garbage behind a good pickle", DIFFER | NOT_DECIDED)
    sample(
        "end_garbage_in_between.pkl",
        proto(2, DATA) + b"\x00garbage" + BAD,
        "garbage, then a bad pickle",
        RUN_OR_DIFFER | NOT_DECIDED,
    )
    sample("end_padded.pkl", proto(2, DATA) + b"\0" * 70000 + BAD, "zeros, then a bad pickle", RUN_OR_DIFFER | NOT_DECIDED)
    sample(
        "end_far.pkl",
        proto(2, b"".join(b"K\x010" for _ in range(400000)) + SYSTEM_CALL),
        "the call comes after 800000 opcodes",
        RUN | NOT_DECIDED,
    )
    sample(
        "end_long_string.pkl",
        proto(2, TEXT("a" * 3000000) + b"0" + SYSTEM_CALL),
        "the call comes after 3 MB of text",
        RUN | NOT_DECIDED,
    )
    sample(
        "end_deep.pkl", proto(2, b"]" * 200000 + SYSTEM_CALL + b"a" * 200000), "the call is nested 200000 deep", RUN | NOT_DECIDED
    )
    sample(
        "end_deep_marks.pkl",
        proto(2, b"(" * 200000 + SYSTEM_CALL + b"t" * 200000),
        "the call is below 200000 marks",
        RUN | NOT_DECIDED,
    )


def numbers():
    """Operands that CPython reads and others may not."""
    for number, index in enumerate((b" 1", b"1 ", b"+1", b"0_1", b"01", b"1\r")):
        sample(
            "memo_number_%d.pkl" % number,
            at_line("os") + b"p" + index + b"\n0" + at_line("system") + b"p2\n0g" + index + b"\ng2\n\x93(S'true'\ntR.",
            "a memo number written %r" % index.decode(),
            RUN | NOT_DECIDED,
        )
    for number, integer in enumerate((b"0x10", b"0b1", b"1_000", b" 1", b"+1", b"0o7")):
        sample(
            "integer_%d.pkl" % number,
            b"I" + integer + b"\n0" + SYSTEM_CALL + b".",
            "an INT written %r, then the call" % integer.decode(),
            RUN | NOT_DECIDED,
        )
    for number, real in enumerate((b"nan", b"1e5", b" 1.5", b"1_0.5", b"-inf")):
        sample(
            "float_%d.pkl" % number,
            b"F" + real + b"\n0" + SYSTEM_CALL + b".",
            "a FLOAT written %r, then the call" % real.decode(),
            RUN | NOT_DECIDED,
        )
    sample("long_no_letter.pkl", b"L5\n0" + SYSTEM_CALL + b".", "a LONG without L", RUN | NOT_DECIDED)
    sample(
        "long_huge.pkl",
        proto(2, b"\x8b" + struct.pack("<I", 100000) + b"\x7f" * 100000 + b"0" + SYSTEM_CALL),
        "an integer of 100000 bytes",
        RUN | NOT_DECIDED,
    )
    sample("string_no_quote.pkl", SYSTEM_CALL + b"0Sabc\n.", "a STRING without quotes after the call")
    sample(
        "string_quote_space.pkl",
        b"S'a' \n0" + SYSTEM_CALL + b".",
        "a STRING with a blank behind it, as Python 2 took it",
        RUN | NOT_DECIDED,
    )
    sample("memo_huge_index.pkl", proto(2, b"K\x01r\xff\xff\xff\x7f0" + SYSTEM_CALL), "a memo index of 2^31", RUN | NOT_DECIDED)
    sample(
        "memo_high_index.pkl",
        proto(2, SYSTEM + b"r\x00\x00\x10\x000j\x00\x00\x10\x00" + value((COMMAND,)) + b"R"),
        "a function at memo index 2^20",
    )


def frames():
    """FRAME is only about buffers, to most."""
    sample(
        "frame_short.pkl",
        b"\x80\x04\x95" + struct.pack("<Q", 1) + SYSTEM_CALL + b".",
        "a frame that ends in the middle of an opcode",
        RUN_OR_DIFFER,
    )
    sample("frame_zero.pkl", b"\x80\x04\x95" + struct.pack("<Q", 0) + SYSTEM_CALL + b".", "an empty frame")
    sample("frame_nested.pkl", b"\x80\x04" + frame(frame(SYSTEM_CALL)) + b".", "a frame in a frame")
    sample("frame_many.pkl", b"\x80\x04" + b"".join(frame(b"N0") for _ in range(50)) + frame(SYSTEM_CALL) + b".", "50 frames")
    sample(
        "frame_end.pkl",
        b"\x80\x04" + SYSTEM_CALL + b"\x95" + struct.pack("<Q", 1 << 40) + b".",
        "a frame longer than the file, after the call",
        RUN_OR_DIFFER,
    )
    sample("frame_in_protocol_0.pkl", frame(SYSTEM_CALL) + b".", "FRAME without PROTO")
    sample("proto_middle.pkl", SYSTEM + b"\x80\x04" + value((COMMAND,)) + b"\x80\x02R.", "PROTO between opcodes")
    sample("proto_0.pkl", b"\x80\x00cos\nsystem\n(S'true'\ntR.", "PROTO 0")
    sample("proto_5_text.pkl", b"\x80\x05cos\nsystem\n(S'true'\ntR.", "PROTO 5, opcodes of protocol 0")
    sample("proto_none_4.pkl", named("os", "system") + short(COMMAND) + b"\x85R.", "opcodes of protocol 4 without PROTO")


FIRST = {
    "none": b"N0",
    "true": b"\x880",
    "false": b"\x890",
    "tuple": b")0",
    "list": b"]0",
    "dict": b"}0",
    "set": b"\x8f0",
    "int": b"I1\n0",
    "long": b"L1L\n0",
    "binint": b"J\x01\x00\x00\x000",
    "binint1": b"K\x010",
    "binint2": b"M\x01\x010",
    "long1": b"\x8a\x01\x010",
    "long4": b"\x8b\x01\x00\x00\x00\x010",
    "float": b"F1\n0",
    "binfloat": b"G" + bytes(8) + b"0",
    "string": b"S'a'\n0",
    "binstring": b"T\x01\x00\x00\x00a0",
    "short_binstring": b"U\x01a0",
    "unicode": b"Va\n0",
    "binunicode": TEXT("a") + b"0",
    "short_binunicode": b"\x8c\x01a0",
    "binunicode8": b"\x8d\x01\0\0\0\0\0\0\0a0",
    "binbytes": blob(b"a") + b"0",
    "short_binbytes": b"C\x01a0",
    "binbytes8": b"\x8e\x01\0\0\0\0\0\0\0a0",
    "bytearray8": b"\x96\x01\0\0\0\0\0\0\0a0",
    "mark": b"(1",
    "mark_tuple": b"(t0",
    "mark_list": b"(l0",
    "mark_dict": b"(d0",
    "mark_frozenset": b"(\x910",
    "frame": b"\x95" + bytes(8),
    "global": b"",
    "stop_text": b"V{\"a\": 1}\n0",
    "blank_text": b"V \n0",
}


def beginnings():
    """Files that do not look like pickles: pickle.load asks for no magic number."""
    for name, opcodes in FIRST.items():
        sample("first_%s.bin" % name, opcodes + SYSTEM_CALL + b".", "a pickle that begins with %r" % opcodes[:8])
    readme = b"cos\nsystem\n(S'true'\ntR.\n# A fine model\n\nJust text, says the name.\n"
    sample("README.md", readme, "a pickle that is called README.md", RUN_OR_DIFFER)
    sample("config.json", b"V{\"a\": \n0" + SYSTEM_CALL + b".", "a pickle that is called config.json", RUN_OR_DIFFER)
    text = b"cantigravity\nfly\nJust some text, and a lot of it.\n"
    sample(
        "import_only.txt",
        text,
        "an import alone runs what the module does on import; then the text goes on",
        RUN_OR_DIFFER | NOT_DECIDED | {"needs-objects"},
    )
    stack = b"Vantigravity\nVfly\n\x93\xff"
    sample("import_only_broken.pkl", stack, "an import alone, by STACK_GLOBAL, and then no opcode", RUN | NOT_DECIDED)
    sample("import_only.pkl", proto(2, files.glob("antigravity", "fly")), "an import alone")
    sample(
        "import_only.pt",
        torch_zip(proto(2, files.glob("idlelib.idle", "x"))),
        "an import alone, of a module that starts a program",
    )
    sample("no_extension", BAD, "a pickle without an extension", RUN, "picklescan CVE-2025-1889")
    sample("wrong_extension.safetensors", BAD, "a pickle that is called .safetensors")
    sample(
        "wrong_extension.bin",
        proto(4, named("asyncio.unix_events", "_UnixSubprocessTransport._start") + value(({}, "x")) + b"R"),
        "a bare pickle that is called .bin",
        RUN,
        "picklescan GHSA-jgw4-cr84-mqxg, CVE-2025-10155",
    )
    sample("wrong_extension.npy", BAD, "numpy.load unpickles what it does not know")
    sample("wrong_extension.txt", BAD, "a pickle that is called .txt", RUN, "picklescan CVE-2025-1889")
    sample("wrong_extension.pt2", BAD, "a pickle that is called .pt2")
    sample("wrong_extension.onnx", BAD, "a pickle that is called .onnx")


names()
calls()
ends()
numbers()
frames()
beginnings()
