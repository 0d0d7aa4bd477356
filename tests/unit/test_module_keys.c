/* SPDX-License-Identifier: Apache-2.0 */
/* Which strings the attributes of modules are named by after a load with Python 3.14: of the class, of the first module, or of the file. */
#include "unit.h"

#include "pickle/opcodes.h"
#include "resave/module_keys.h"

#include <stdio.h>
#include <string.h>

static const uint64_t BUDGET = 64 << 20;

/* ---- pickles: a list of modules; every text in them is an object of its own ---- */

static void put_text(struct ckpt_buf *out, const char *text)
{
	ckpt_buf_add_u8(out, CKPT_OP_BINUNICODE);
	ckpt_buf_add_u32(out, (uint32_t)strlen(text));
	ckpt_buf_add(out, text, strlen(text));
}

static void put_ops(struct ckpt_buf *out, const char *ops)
{
	ckpt_buf_add(out, ops, strlen(ops));
}

/* A module up to its state, and what ends it. */
static void begin_module(struct ckpt_buf *out, const char *class)
{
	put_ops(out, "c");
	put_ops(out, class);
	put_ops(out, "\n)\x81}(");
	put_text(out, "_parameters");
	put_ops(out, "}");
	put_text(out, "_modules");
	put_ops(out, "}");
}

static void put_attribute(struct ckpt_buf *out, const char *name)
{
	put_text(out, name);
	put_ops(out, "N");
}

static void end_module(struct ckpt_buf *out)
{
	put_ops(out, "ub");
}

struct loaded {
	struct ckpt_buf bytes;
	struct ckpt_document doc;
	struct ckpt_model model;
	struct ckpt_module_keys *keys;
};

static void begin(struct loaded *l)
{
	*l = (struct loaded){ 0 };
	put_ops(&l->bytes, "\x80\x02](");
}

static void load(struct loaded *l)
{
	struct ckpt_error err = { 0 };

	put_ops(&l->bytes, "e.");
	assert_int_equal(ckpt_pickle_decode(l->bytes.data, l->bytes.len, BUDGET, &l->doc.pickle,
					    &err),
			 0);
	l->model.doc = &l->doc;
	l->model.next_id = l->doc.pickle.next_id;
	l->keys = ckpt_module_keys_new(&l->model, l->doc.pickle.arena);
	assert_non_null(l->keys);
}

static void clear(struct loaded *l)
{
	ckpt_module_keys_free(l->keys);
	ckpt_pickle_clear(&l->doc.pickle);
	ckpt_buf_clear(&l->bytes);
}

/* What MODULE names its attribute NAME by. */
enum origin { OF_CLASS, OF_FILE, OF_OTHER };

static const struct ckpt_value *module_at(const struct loaded *l, uint32_t i)
{
	return l->doc.pickle.root->u.seq.items[i];
}

static const struct ckpt_value *key_in(const struct loaded *l, const struct ckpt_value *module,
				       const char *name, enum origin *origin)
{
	const struct ckpt_seq *state = &module->u.call->state->u.seq;

	for (uint32_t i = 0; i < state->count; i += 2)
		if (ckpt_value_is_str(state->items[i], name)) {
			const struct ckpt_value *key =
				ckpt_module_key(l->keys, module, i / 2, state->items[i]);

			assert_true(ckpt_value_is_str(key, name));
			*origin = key->flags & CKPT_VALUE_INTERNED ? OF_CLASS
				  : key == state->items[i]	   ? OF_FILE
								   : OF_OTHER;
			return key;
		}
	fail_msg("no attribute '%s'", name);
	return NULL;
}

static enum origin origin_of(const struct loaded *l, uint32_t i, const char *name)
{
	enum origin origin = OF_FILE;

	key_in(l, module_at(l, i), name, &origin);
	return origin;
}

/* ---- tests ---- */

static void names_that_a_class_assigns_are_interned(void **state)
{
	struct loaded l;

	(void)state;
	begin(&l);
	begin_module(&l.bytes, "torch.nn.modules.container\nSequential");
	end_module(&l.bytes);
	begin_module(&l.bytes, "torch.nn.modules.linear\nLinear");
	put_attribute(&l.bytes, "in_features");
	put_attribute(&l.bytes, "note");
	end_module(&l.bytes);
	load(&l);
	assert_int_equal(origin_of(&l, 0, "_modules"), OF_CLASS);
	assert_int_equal(origin_of(&l, 0, "_parameters"), OF_FILE);
	assert_int_equal(origin_of(&l, 1, "_modules"), OF_FILE);
	assert_int_equal(origin_of(&l, 1, "in_features"), OF_CLASS);
	assert_int_equal(origin_of(&l, 1, "note"), OF_FILE);
	clear(&l);
}

static void a_class_of_torch_assigns_nothing_of_its_base(void **state)
{
	struct loaded l;

	(void)state;
	begin(&l);
	begin_module(&l.bytes, "torch.nn.modules.dropout\nDropout");
	put_attribute(&l.bytes, "inplace");
	end_module(&l.bytes);
	load(&l);
	assert_int_equal(origin_of(&l, 0, "inplace"), OF_FILE);
	clear(&l);
}

static void a_class_of_a_user_assigns_what_modules_do_not_have(void **state)
{
	struct loaded l;

	(void)state;
	begin(&l);
	begin_module(&l.bytes, "program\nNet");
	put_attribute(&l.bytes, "training");
	put_attribute(&l.bytes, "width");
	put_attribute(&l.bytes, "no name");
	end_module(&l.bytes);
	load(&l);
	assert_int_equal(origin_of(&l, 0, "training"), OF_FILE);
	assert_int_equal(origin_of(&l, 0, "width"), OF_CLASS);
	assert_int_equal(origin_of(&l, 0, "no name"), OF_FILE);
	clear(&l);
}

static void other_names_are_those_of_the_first_module_with_a_state(void **state)
{
	enum origin origin = OF_FILE;
	struct loaded l;

	(void)state;
	begin(&l);
	begin_module(&l.bytes, "torch.nn.modules.container\nSequential");
	put_text(&l.bytes, "inner");
	begin_module(&l.bytes, "torch.nn.modules.container\nSequential");
	end_module(&l.bytes);
	end_module(&l.bytes);
	load(&l);

	/* the inner one is made later, and has its state earlier */
	const struct ckpt_value *outer = module_at(&l, 0),
				*inner = outer->u.call->state->u.seq.items[5];

	assert_ptr_equal(key_in(&l, inner, "_parameters", &origin),
			 inner->u.call->state->u.seq.items[0]);
	assert_ptr_equal(key_in(&l, outer, "_parameters", &origin),
			 inner->u.call->state->u.seq.items[0]);
	assert_int_equal(origin, OF_OTHER);
	clear(&l);
}

/* With COUNT attributes that no class assigns, and LAST. */
static void put_wide_module(struct ckpt_buf *out, const char *class, unsigned count,
			    const char *last)
{
	char name[16];

	begin_module(out, class);
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		put_attribute(out, name);
	}
	put_attribute(out, last);
	end_module(out);
}

static void names_behind_the_first_that_finds_no_room_are_those_of_the_file(void **state)
{
	struct loaded l;

	(void)state;
	begin(&l);
	/* 30 places: 1 for the instance, 4 for the class, 2 and 23 for names of the state */
	put_wide_module(&l.bytes, "torch.nn.modules.linear\nLinear", 23, "in_features");
	load(&l);
	assert_int_equal(origin_of(&l, 0, "in_features"), OF_CLASS);
	clear(&l);

	begin(&l);
	put_wide_module(&l.bytes, "torch.nn.modules.linear\nLinear", 24, "in_features");
	load(&l);
	assert_int_equal(origin_of(&l, 0, "in_features"), OF_FILE);
	clear(&l);
}

static void a_long_state_shares_nothing(void **state)
{
	struct loaded l;

	(void)state;
	begin(&l);
	begin_module(&l.bytes, "torch.nn.modules.linear\nLinear");
	put_attribute(&l.bytes, "in_features");
	for (unsigned i = 3; i < 43; i++) {
		char name[16];

		snprintf(name, sizeof(name), "name %u", i);
		put_attribute(&l.bytes, name);
	}
	end_module(&l.bytes);
	load(&l);
	assert_int_equal(origin_of(&l, 0, "in_features"), OF_FILE);
	clear(&l);
}

UNIT_SUITE(test_module_keys)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_a_class_assigns_are_interned),
		cmocka_unit_test(a_class_of_torch_assigns_nothing_of_its_base),
		cmocka_unit_test(a_class_of_a_user_assigns_what_modules_do_not_have),
		cmocka_unit_test(other_names_are_those_of_the_first_module_with_a_state),
		cmocka_unit_test(names_behind_the_first_that_finds_no_room_are_those_of_the_file),
		cmocka_unit_test(a_long_state_shares_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
