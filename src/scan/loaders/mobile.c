/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mobile models in a FlatBuffers file: what a load of them runs. That is the functions that objects name as
 * their __setstate__, in bytecode, and with torch.jit.load the compiler, of the sources that are in the file, too. Source:
 * torch/csrc/jit/mobile/flatbuffer_loader.cpp and interpreter.cpp of 1.13 to 2.14.
 *
 * What must stay true: bytecode is not followed. The interpreter takes numbers of registers, constants
 * and jumps as they are, so that a file with any such function is not decided, whatever it calls.
 */
#include "scan/scanner.h"

#include "base/ascii.h"
#include "base/text.h"
#include "format/torch_mobile.h"
#include "scan/names.h"
#include "scan/loaders/script.h"

#include <stdlib.h>
#include <string.h>

enum { IVALUE_KIND, IVALUE_VALUE };
enum { KIND_OBJECT = 10, KIND_FUNCTION = 16 };
enum { OBJECT_TYPE, OBJECT_STATE, OBJECT_ATTRS, OBJECT_SETSTATE };
enum { TYPE_NAME, TYPE_KIND };
enum { CLASS_WITH_SETSTATE = 3 };
enum { FUNCTION_NAME, FUNCTION_INSTRUCTIONS, FUNCTION_OPERATORS };
enum { OPERATOR_NAME };
enum { INSTRUCTION_BYTES = 8 }; /* opcode, a zero, N of 16 bits, X of 32 */
enum { SOURCE_NAME, SOURCE_CONTENT };
enum { SHOWN = 64, MOST_SOURCE = 64 << 20 };

struct mobile_scan {
	struct ckpt_scanner *s;
	struct ckpt_source *source;
	struct ckpt_flatbuffer fb;
	struct ckpt_flatbuffer_table module;
	struct ckpt_flatbuffer_vector values, types;
	struct ckpt_scan_script script; /* what its sources do */
	uint8_t *is_checked; /* malloc: by the number of a function */
	bool sets_states;
};

/* Operators that only make a value of those they are given. */
static bool is_harmless(const char *name)
{
	static const char *const names[] = { "aten::eq", "aten::ne", "aten::__is__", "aten::__isnot__", "aten::__not__", "prim::unchecked_cast", "prim::RaiseException", "prim::TupleUnpack", NULL };

	return ckpt_is_one_of(name, names) || (!strncmp(name, "quantized::", 11) && ckpt_ends_with(name, "_prepack"));
}

/* Item I of the values, if it is of KIND. */
static struct ckpt_flatbuffer_table value_of_kind(struct mobile_scan *m, uint64_t i, unsigned kind)
{
	struct ckpt_flatbuffer_table t = { 0 };

	if (i < m->values.count)
		t = ckpt_flatbuffer_item(&m->fb, &m->values, (uint32_t)i);
	if (ckpt_flatbuffer_scalar(&m->fb, &t, IVALUE_KIND, 1, 0) != kind)
		return (struct ckpt_flatbuffer_table){ 0 };
	return ckpt_flatbuffer_table(&m->fb, &t, IVALUE_VALUE);
}

/* A text that lives as long as it is looked at. */
static const char *read_text(struct mobile_scan *m, const struct ckpt_flatbuffer_table *t, unsigned field)
{
	uint32_t len;
	const char *text = ckpt_flatbuffer_text(&m->fb, t, field, m->s->arena, &len);

	return text ? text : "";
}

/* Does an object have such a state that a load calls a function of the file with it? */
static bool is_set_by_function(struct mobile_scan *m, const struct ckpt_flatbuffer_table *object)
{
	uint64_t number = ckpt_flatbuffer_scalar(&m->fb, object, OBJECT_TYPE, 4, 0);
	struct ckpt_flatbuffer_table type = { 0 };

	if (!object->at || number >= m->types.count)
		return false;
	type = ckpt_flatbuffer_item(&m->fb, &m->types, (uint32_t)number);
	return ckpt_flatbuffer_scalar(&m->fb, &type, TYPE_KIND, 1, 0) == CLASS_WITH_SETSTATE;
}

/*
 * Opcodes that call no other function, start no thread and go back nowhere: what torch writes for a __setstate__. They have the
 * same numbers in all versions. Source: torch/csrc/jit/runtime/instruction.h.
 */
static bool is_harmless_opcode(uint64_t op)
{
	static const uint8_t opcodes[] = {
		0, 1, /* OP, OPN */
		2, 3, 4, 5, 6, 7, 8, /* LOAD, MOVE, STOREN, STORE, DROP, DROPR, LOADC */
		9, 10, 12, /* JF, JMP, RET */
		21, 22, 23, 24, 25, 26, /* GET_ATTR, SET_ATTR, LIST_UNPACK, TUPLE_CONSTRUCT, NAMED_TUPLE_CONSTRUCT, LIST_CONSTRUCT */
		30, 31, 32, 34, 35, 36, 37, 42, /* TUPLE_SLICE, TUPLE_INDEX, RAISE_EXCEPTION, UNCHECKED_CAST, __IS__, UN_INITIALIZED, __ISNOT__, __NOT__ */
	};

	return memchr(opcodes, (int)(op & 0xFF), sizeof(opcodes)) != NULL;
}

static void check_instructions(struct mobile_scan *m, const struct ckpt_flatbuffer_table *function)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(&m->fb, function, FUNCTION_INSTRUCTIONS, INSTRUCTION_BYTES);

	for (uint32_t i = 0; m->fb.rc == 0 && i < v.count; i++) {
		uint64_t op = ckpt_flatbuffer_number(&m->fb, v.at + INSTRUCTION_BYTES * (uint64_t)i, 1);

		if (m->fb.rc < 0 || is_harmless_opcode(op))
			continue;
		ckpt_scan_find(m->s, CKPT_SCAN_DANGEROUS, "source", v.at + INSTRUCTION_BYTES * (uint64_t)i,
			       "a mobile model whose __setstate__ a load runs, with instruction %u, which goes beyond its state", (unsigned)op);
		return;
	}
}

static void check_function(struct mobile_scan *m, const struct ckpt_flatbuffer_table *function)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(m->s->arena);
	struct ckpt_flatbuffer_vector operators = ckpt_flatbuffer_vector(&m->fb, function, FUNCTION_OPERATORS, 4);

	for (uint32_t i = 0; m->fb.rc == 0 && i < operators.count; i++) {
		struct ckpt_flatbuffer_table operator = ckpt_flatbuffer_item(&m->fb, &operators, i);
		const char *name = read_text(m, &operator, OPERATOR_NAME);
		char shown[SHOWN];

		if (m->fb.rc == 0 && !is_harmless(name)) {
			ckpt_scan_find(m->s, CKPT_SCAN_DANGEROUS, "source", function->at, "a mobile model whose __setstate__ a load runs, which calls '%s'",
				       ckpt_escape(shown, sizeof(shown), name, strlen(name)));
			return;
		}
		ckpt_arena_release(m->s->arena, mark);
	}
	check_instructions(m, function);
}

static void check_values(struct mobile_scan *m)
{
	m->is_checked = calloc(m->values.count + (size_t)1, 1);
	if (!m->is_checked && m->fb.rc == 0)
		m->fb.rc = ckpt_fail_nomem(m->fb.err);
	for (uint32_t i = 0; m->fb.rc == 0 && i < m->values.count; i++) {
		struct ckpt_flatbuffer_table object = value_of_kind(m, i, KIND_OBJECT), function;
		uint64_t number;

		if (!is_set_by_function(m, &object))
			continue;
		if (!m->sets_states)
			ckpt_scan_find(m->s, CKPT_SCAN_UNREADABLE, "source", CKPT_NO_OFFSET, "a mobile model whose __setstate__ a load runs: its bytecode is not followed");
		m->sets_states = true;
		number = ckpt_flatbuffer_scalar(&m->fb, &object, OBJECT_SETSTATE, 4, 0);
		if (m->fb.rc < 0 || number >= m->values.count || m->is_checked[number])
			continue;
		m->is_checked[number] = 1;
		function = value_of_kind(m, number, KIND_FUNCTION);
		check_function(m, &function);
	}
	free(m->is_checked);
}

/* "__torch__.Net", as torch writes it: another text its loader parses as a type, in which blanks, say, mean nothing. */
static bool is_class_path(const char *name)
{
	for (const char *at = name; *at; at++)
		if (!ckpt_is_alnum((unsigned char)*at) && *at != '_' && *at != '.' && !((unsigned char)*at & 0x80))
			return false;
	return !strncmp(name, "__torch__.", 10);
}

/* The classes of its objects, of which those of C++ that load a pickle or connect are dangerous. */
static void check_types(struct mobile_scan *m)
{
	bool said = false;

	for (uint32_t i = 0; m->fb.rc == 0 && i < m->types.count; i++) {
		struct ckpt_arena_mark mark = ckpt_arena_mark(m->s->arena);
		struct ckpt_flatbuffer_table type = ckpt_flatbuffer_item(&m->fb, &m->types, i);
		const char *name = read_text(m, &type, TYPE_NAME);
		char shown[SHOWN];

		if (m->fb.rc == 0 && is_class_path(name) ? ckpt_scan_runs_code("__torch__", name + 10) : strstr(name, "classes") != NULL) {
			ckpt_scan_find(m->s, CKPT_SCAN_DANGEROUS, "source", type.at, "a mobile model with an object of %s", ckpt_escape(shown, sizeof(shown), name, strlen(name)));
			return;
		}
		if (m->fb.rc == 0 && !said && !is_class_path(name)) {
			ckpt_scan_find(m->s, CKPT_SCAN_UNREADABLE, "source", type.at, "a mobile model with an object of '%s', which is no class as torch writes it", ckpt_escape(shown, sizeof(shown), name, strlen(name)));
			said = true;
			continue; /* what was found lies in the arena, too */
		}
		ckpt_arena_release(m->s->arena, mark);
	}
}

/* torch.jit.load compiles them. */
static void check_sources(struct mobile_scan *m)
{
	struct ckpt_flatbuffer_vector v = ckpt_flatbuffer_vector(&m->fb, &m->module, MODULE_JIT_SOURCES, 4);

	for (uint32_t i = 0; m->fb.rc == 0 && i < v.count; i++) {
		struct ckpt_flatbuffer_table t = ckpt_flatbuffer_item(&m->fb, &v, i);
		struct ckpt_flatbuffer_vector text = ckpt_flatbuffer_vector(&m->fb, &t, SOURCE_CONTENT, 1);
		uint8_t *bytes;

		if (text.count > MOST_SOURCE)
			ckpt_flatbuffer_fail(&m->fb, CKPT_E_LIMIT, t.at, "a source of more than 64 MiB");
		/* many may be at the same place */
		if (m->fb.rc == 0 && text.count > m->fb.budget)
			ckpt_flatbuffer_fail(&m->fb, CKPT_E_LIMIT, t.at, "more sources than a file of this size can hold");
		if (m->fb.rc < 0)
			return;
		m->fb.budget -= text.count;
		bytes = malloc((size_t)text.count + 1);
		m->fb.rc = bytes ? ckpt_source_read(m->source, text.at, bytes, text.count, m->fb.err) : ckpt_fail_nomem(m->fb.err);
		if (m->fb.rc == 0)
			ckpt_scan_script_source(&m->script, bytes, text.count);
		free(bytes);
	}
	ckpt_scan_script_report(m->s, &m->script);
}

void ckpt_scan_mobile(struct ckpt_scanner *s, struct ckpt_source *source)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct mobile_scan m = { .s = s, .source = source };
	int rc = ckpt_flatbuffer_open(&m.fb, source, &err);

	if (rc == 0) {
		m.module = ckpt_flatbuffer_root(&m.fb);
		m.values = ckpt_flatbuffer_vector(&m.fb, &m.module, MODULE_IVALUES, 4);
		m.types = ckpt_flatbuffer_vector(&m.fb, &m.module, MODULE_OBJECT_TYPES, 4);
		check_types(&m);
		check_values(&m);
		check_sources(&m);
		rc = m.fb.rc;
	}
	ckpt_flatbuffer_clear(&m.fb);
	ckpt_scan_failed(s, rc, &err);
}
