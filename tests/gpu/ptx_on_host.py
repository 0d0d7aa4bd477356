# SPDX-License-Identifier: Apache-2.0
"""Run the PTX of the kernel for checksums on the host: ptx_on_host.py COMPILER HEADER

tests/unit/test_crc.c runs the kernel's source as C, and only a GPU runs what clang made of it. In between, this translates every
instruction of the PTX in HEADER (src/gpu/crc_kernel_ptx.h) into a statement of C, and compares what it computes with zlib. Shared memory
begins where GPUs have it: at 0, and at 1024 from sm_90 on, whatever alignment is asked for. An address that is not aligned, or not in the
memory that the kernel was given, ends the run.
"""

import ctypes
import os
import random
import re
import subprocess
import sys
import tempfile
import zlib

SHARED_BASES = (0, 1024)
PRODUCTS, WORDS = 128, 4
MEMORY = 400000

RUNNER = r"""
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8; typedef uint16_t u16, b16; typedef int16_t s16; typedef uint32_t u32, b32; typedef int32_t s32; typedef uint64_t u64, b64; typedef int64_t s64;
struct launch { uint64_t params[4], sizes[4], shared_base; uint32_t blocks, threads; };
struct thread { REGISTERS uint32_t tid; int at; };
static uint8_t shared[1024 + SHARED_BYTES] __attribute__((aligned(2048)));
static const struct launch *l;
static const char *bad;

static void *global(uint64_t address, unsigned nbytes)
{
	static uint64_t nowhere[2];

	if (address % nbytes)
		bad = "an address in global memory is not aligned";
	for (int i = 0; i < 4; i++)
		if (l->sizes[i] && address >= l->params[i] && address - l->params[i] + nbytes <= l->sizes[i])
			return (void *)address;
	bad = "an address that is not in the memory of the kernel";
	return nowhere;
}

static void *local(uint64_t address, unsigned nbytes)
{
	if (address % nbytes)
		bad = "an address in shared memory is not aligned";
	if (address >= l->shared_base && address + nbytes <= l->shared_base + SHARED_BYTES)
		return shared + address;
	bad = "an address outside of shared memory";
	return shared;
}

/* Until the next barrier: false at the end. */
static bool run(struct thread *t, uint32_t block)
{
	switch (t->at) {
	case 0:;
STATEMENTS
	}
	return false;
}

const char *run_kernel(const struct launch *launch)
{
	struct thread *threads = calloc(launch->threads, sizeof(*threads));

	l = launch;
	bad = NULL;
	for (uint32_t block = 0; block < l->blocks && !bad; block++) {
		uint32_t going = l->threads;

		memset(threads, 0, l->threads * sizeof(*threads));
		memset(shared, 0xa5, sizeof(shared));
		for (uint32_t i = 0; i < l->threads; i++)
			threads[i].tid = i;
		while (going && !bad) {
			uint32_t left = 0;

			for (uint32_t i = l->threads; i-- > 0;)
				left += run(&threads[i], block);
			if (left && left != going)
				bad = "some threads are at a barrier, others at the end";
			going = left;
		}
	}
	free(threads);
	return bad;
}
"""

SPECIAL = {"%tid.x": "t->tid", "%ctaid.x": "block", "%ntid.x": "l->threads", "%nctaid.x": "l->blocks"}
BINARY = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "div": "/"}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Translation:
    def __init__(self, text):
        self.statements, self.barriers = [], 0
        self.registers = {kind: int(count) for kind, count in re.findall(r"\.reg \.\w+\s+%([a-z]+)<(\d+)>", text)}
        shared = re.findall(r"\.shared \.align \d+ \.b8 (\S+)\[(\d+)\];", text)
        if len(shared) != 1:
            raise SystemExit("wanted one shared variable, found %r" % shared)
        self.shared, self.shared_bytes = shared[0][0], int(shared[0][1])
        for line in text[text.index("{"):].splitlines():
            line = line.strip()
            if re.match(r"\w+:$", line):
                self.statements.append(line + ";")
            elif line not in ("{", "}") and not line.startswith("."):
                self.translate(line)

    def value(self, text):
        text = text.strip()
        register = re.match(r"%([a-z]+)(\d+)$", text)
        if register:
            return "t->%s[%s]" % register.groups()
        if text == self.shared:
            return "l->shared_base"
        if re.match(r"-?\d+$", text):
            return "((s64)%sLL)" % text
        return SPECIAL[text]

    def place(self, space, text, nbytes):
        base, off = re.match(r"\[(%\w+)\+?(-?\d+)?\]$", text).groups()
        return "%s(%s + (s64)%s, %d)" % ("global" if space == "global" else "local", self.value(base), off or 0, nbytes)

    def translate(self, line):
        guard = re.match(r"@(!?)(%p\d+)\s+", line)
        code = self.instruction(line[guard.end() if guard else 0:].rstrip(";"))
        self.statements.append("if (%s%s) { %s }" % (guard.group(1), self.value(guard.group(2)), code) if guard else code)

    def instruction(self, text):
        name, _, rest = text.partition(" ")
        op, *kinds = name.split(".")
        if op == "bra":
            return "goto %s;" % rest.strip()
        if op == "ret":
            return "return false;"
        if name == "bar.sync":
            self.barriers += 1
            return "t->at = %d; return true; case %d:;" % (self.barriers, self.barriers)
        operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
        if op in ("ld", "st"):
            return self.memory(op, kinds, operands)
        out, *values = operands[0], *(self.value(v) for v in operands[1:])
        kind = kinds[-1]
        typed = ["((%s)%s)" % (kind, v) for v in values]
        if name == "and.pred":
            code = "%s && %s" % tuple(values)
        elif op == "setp":
            code = "%s %s %s" % (typed[0], COMPARED[kinds[0]], typed[1])
        elif op in BINARY:
            code = "(%s)(%s %s %s)" % (kind, typed[0], BINARY[op], typed[1])
        elif op == "mov":
            code = typed[0]
        elif op == "cvt":
            code = "(%s)%s" % (kinds[0], typed[0])
        elif op == "neg":
            code = "(%s)-%s" % (kind, typed[0])
        elif op == "min":
            code = "%s < %s ? %s : %s" % (typed[0], typed[1], typed[0], typed[1])
        elif op == "mul" and kinds[0] == "wide":
            code = "(u%d)%s * %s" % (2 * int(kind[1:]), *typed)
        elif op == "mul" and kinds[0] == "lo":
            code = "(u64)%s * (u64)%s" % tuple(typed)
        elif op in ("shl", "shr"):
            code = "(u32)%s >= %s ? 0 : %s %s %s" % (values[1], kind[1:], typed[0], "<<" if op == "shl" else ">>", values[1])
        else:
            raise SystemExit("an instruction that is not known here: %s" % text)
        return "%s = %s;" % (self.value(out), code)

    def memory(self, op, kinds, operands):
        space, kind = kinds[0], kinds[-1]
        if space == "param":
            return "%s = l->params[%s];" % (self.value(operands[0]), operands[1].rstrip("]")[-1])
        if op == "st":
            operands.reverse()
        registers = operands[0].strip("{}").split(",")
        nbytes = int(kind[1:]) // 8
        place = "(%s *)%s" % (kind, self.place(space, operands[1], nbytes * len(registers)))
        if op == "st":
            return "*%s = %s;" % (place, self.value(registers[0]))
        return "{ const %s *from = %s; %s }" % (kind, place, " ".join("%s = from[%d];" % (self.value(r), i) for i, r in enumerate(registers)))

    def program(self):
        types = {"p": "bool", "rs": "uint16_t", "r": "uint32_t", "rd": "uint64_t"}
        registers = " ".join("%s %s[%d];" % (types[kind], kind, count) for kind, count in self.registers.items())
        return (RUNNER.replace("SHARED_BYTES", str(self.shared_bytes)).replace("REGISTERS", registers)
                .replace("STATEMENTS", "\n".join(self.statements)))


class Launch(ctypes.Structure):
    _fields_ = [("params", ctypes.c_uint64 * 4), ("sizes", ctypes.c_uint64 * 4), ("shared_base", ctypes.c_uint64),
                ("blocks", ctypes.c_uint32), ("threads", ctypes.c_uint32)]


def add_bytes(total, more):
    """The sum without zlib's ones, going on from TOTAL."""
    return zlib.crc32(more, total ^ 0xffffffff) ^ 0xffffffff


def make_constants(threads):
    """As tests/unit/test_crc.c makes them: sums of a 1 with zeros behind it."""
    products = [add_bytes(i % 16 << i // 16 * 4, bytes(16 * threads)) for i in range(PRODUCTS)]
    weights, weight = [], add_bytes(0, b"\0\0\0\x80")
    for _ in range(threads * WORDS):
        weights.insert(0, weight)
        weight = add_bytes(weight, bytes(4))
    return (ctypes.c_uint32 * (PRODUCTS + threads * WORDS))(*products, *weights)


def check(run, memory, off, nbytes, grid, constants, base):
    """What is wrong, or None."""
    blocks, threads = grid
    partials = (ctypes.c_uint32 * blocks)()
    launch = Launch(shared_base=base, blocks=blocks, threads=threads)
    start = (ctypes.addressof(memory) + 63) // 64 * 64 + off
    launch.params[:] = [start, nbytes, ctypes.addressof(constants), ctypes.addressof(partials)]
    launch.sizes[:] = [nbytes, 0, ctypes.sizeof(constants), ctypes.sizeof(partials)]
    bad = run(ctypes.byref(launch))
    if bad:
        return bad.decode()
    found = 0
    for partial in partials:
        found ^= partial
    wanted = add_bytes(add_bytes(0, ctypes.string_at(start, nbytes)), bytes(-(off + nbytes) % 16))
    return None if found == wanted else "%08x, wanted %08x" % (found, wanted)


def main():
    compiler, header = sys.argv[1:]
    with open(header, encoding="utf-8") as stream:
        lines = [re.match(r'"(.*)\\n"$', line) for line in stream]
    text = "\n".join(match.group(1).replace('\\"', '"') for match in lines if match)
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "kernel.c"), os.path.join(folder, "kernel.so")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(Translation(text).program())
        subprocess.run([compiler, "-O1", "-w", "-fwrapv", "-fno-strict-aliasing", "-shared", "-fPIC", "-o", library, source], check=True)
        run = ctypes.CDLL(library).run_kernel
    run.restype = ctypes.c_char_p
    rng = random.Random(int(os.environ.get("CKPT_SEED", "1")))
    memory = (ctypes.c_uint8 * MEMORY)(*rng.getrandbits(8 * MEMORY).to_bytes(MEMORY, "little"))
    count = 0
    for grid in ((1, 32), (2, 64), (3, 256), (1, 33)):
        constants = make_constants(grid[0] * grid[1])
        lengths = [(off, nbytes) for off in (0, 1, 15) for nbytes in (0, 1, 2, 15, 16, 17, 31, 33, 64, 100)]
        lengths += [(rng.randrange(64), rng.randrange(rng.choice((300, 5000, 50000, 300000)))) for _ in range(60)]
        for base in SHARED_BASES:
            for off, nbytes in lengths:
                bad = check(run, memory, off, nbytes, grid, constants, base)
                if bad:
                    print("%d blocks of %d threads, shared memory at %d, %d bytes from %d on: %s" % (*grid, base, nbytes, off, bad))
                    return 1
                count += 1
    print("%d sums, as zlib makes them" % count)
    return 0


sys.exit(main())
