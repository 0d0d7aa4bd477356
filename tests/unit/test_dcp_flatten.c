/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "set/dcp/out.h"

#include "base/double.h"

#include <ckpt/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Which keys a state has in a directory. States are written as Python would show them; T is a tensor,
 * ! is True, O an OrderedDict, D a defaultdict, C a Counter, Q a deque and S a set of what follows, &1
 * remembers what follows and *1 is it again.
 */

static struct ckpt_error err;
static struct ckpt_buf file;

struct writer {
	const char *at;
	struct ckpt_buf out;
	unsigned tensors;
};

static void put_value(struct writer *w);

static void put_text(struct writer *w)
{
	const char *end = strchr(++w->at, '\'');
	size_t len = (size_t)(end - w->at);

	ckpt_buf_add_u8(&w->out, 'X');
	ckpt_buf_add_u32(&w->out, (uint32_t)len);
	ckpt_buf_add(&w->out, w->at, len);
	w->at = end + 1;
}

static void put_number(struct writer *w)
{
	char *end;
	double number = ckpt_double_parse(w->at, &end);

	if (memchr(w->at, '.', (size_t)(end - w->at)))
		ckpt_buf_printf(&w->out, "F%.*s\n", (int)(end - w->at), w->at);
	else
		ckpt_buf_printf(&w->out, "I%d\n", (int)number);
	w->at = end;
}

/* What is between brackets; MEMO, unless 0, is remembered before. */
static void put_items(struct writer *w, char end, const char *begin, const char *finish, char memo)
{
	w->at++;
	ckpt_buf_add(&w->out, begin, strlen(begin));
	if (memo)
		ckpt_buf_printf(&w->out, "p%c\n", memo);
	if (*finish != 't')
		ckpt_buf_add_u8(&w->out, '(');
	while (*w->at != end) {
		put_value(w);
		w->at += strspn(w->at, ":, ");
	}
	w->at++;
	ckpt_buf_add(&w->out, finish, strlen(finish));
}

static void put_one(struct writer *w, char memo)
{
	char key[16];

	switch (*w->at) {
	case '\'': put_text(w); break;
	case '{': put_items(w, '}', "}", "u", memo); break;
	case '[': put_items(w, ']', "]", "e", memo); break;
	case '(': put_items(w, ')', "(", "t", 0); break;
	case 'O':
		w->at++;
		put_items(w, '}', "ccollections\nOrderedDict\n)R", "u", memo);
		break;
	case 'D':
		w->at++;
		put_items(w, '}', "ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R", "u",
			  memo);
		break;
	case 'C':
		w->at++;
		ckpt_buf_printf(&w->out, "ccollections\nCounter\n");
		put_items(w, '}', "}", "u\x85R", 0);
		break;
	case 'Q':
		w->at++;
		ckpt_buf_printf(&w->out, "ccollections\ndeque\n");
		put_items(w, ']', "]", "e\x85R", 0);
		break;
	case 'S':
		w->at++;
		ckpt_buf_printf(&w->out, "c__builtin__\nset\n");
		put_items(w, ']', "]", "e\x85R", 0);
		break;
	case 'T':
		w->at++;
		snprintf(key, sizeof(key), "%u", w->tensors++);
		unit_put_tensor(&w->out, key, 1);
		break;
	case 'N':
		w->at += strlen("None");
		ckpt_buf_add_u8(&w->out, 'N');
		break;
	case '!':
		w->at++;
		ckpt_buf_add_u8(&w->out, 0x88); /* True */
		break;
	default: put_number(w);
	}
}

static void put_value(struct writer *w)
{
	char memo = 0;

	if (*w->at == '*') {
		ckpt_buf_printf(&w->out, "g%c\n", w->at[1]);
		w->at += 2;
		return;
	}
	if (*w->at == '&') {
		memo = w->at[1];
		w->at += 2;
	}
	put_one(w, memo);
}

static struct ckpt_model *open_state(const char *text)
{
	struct writer w = { .at = text };
	struct ckpt_model *model;

	put_value(&w);
	if (*w.at)
		fail_msg("not understood: %s", w.at);
	ckpt_buf_clear(&file);
	file = unit_torch_file(&w.out, w.tensors);
	ckpt_buf_clear(&w.out);
	if (ckpt_open_memory(file.data, file.len, &model, &err) < 0)
		fail_msg("%s: %s", text, unit_message(&err));
	return model;
}

static void spell_entry(const struct ckpt_dcp_out_entry *e, struct ckpt_buf *text)
{
	ckpt_buf_printf(text, "%s%.*s", text->len ? " " : "", (int)e->fqn_len, e->fqn);
	ckpt_buf_printf(text, e->is_tensor ? "=T" : "");
	ckpt_buf_printf(text, "(");
	for (uint32_t i = 0; i < e->depth; i++)
		if (e->path[i].text)
			ckpt_buf_printf(text, "%s'%.*s'", i ? "," : "", (int)e->path[i].len,
					e->path[i].text);
		else
			ckpt_buf_printf(text, "%s%" PRIu64, i ? "," : "", e->path[i].position);
	ckpt_buf_printf(text, ")");
}

/* WANT: the keys; those of tensors end with "=T"; behind each its path. */
static void check(const char *state, const char *want)
{
	struct ckpt_model *model = open_state(state);
	struct ckpt_buf found = { 0 };
	struct ckpt_dcp_out out;

	if (ckpt_dcp_flatten(model, NULL, 0, &out, &err) < 0)
		fail_msg("%s: %s", state, unit_message(&err));
	for (uint32_t i = 0; i < out.entry_count; i++) {
		assert_int_equal(out.entries[i].alias_of, UINT32_MAX);
		spell_entry(&out.entries[i], &found);
	}
	ckpt_buf_add_u8(&found, 0);
	if (strcmp((char *)found.data, want) != 0)
		fail_msg("%s\n  found  %s\n  wanted %s", state, (char *)found.data, want);
	ckpt_buf_clear(&found);
	ckpt_dcp_out_clear(&out);
	ckpt_close(model);
	ckpt_buf_clear(&file);
}

static void check_fails(const char *state, int want, const char *text)
{
	struct ckpt_model *model = open_state(state);
	struct ckpt_dcp_out out;
	int rc = ckpt_dcp_flatten(model, NULL, 0, &out, &err);

	if (rc != want)
		fail_msg("%s: returned %d", state, rc);
	assert_string_equal(unit_text(&err), text);
	assert_null(out.arena);
	ckpt_close(model);
	ckpt_buf_clear(&file);
}

static void keys_are_those_of_torch(void **state)
{
	(void)state;
	/* found out with torch 2.6 and 2.14 */
	check("{'model':{'w':T}}", "model.w=T('model','w')");
	check("{'optimizer':{'state':{0:{'step':T,'exp_avg':T}}}}",
	      "optimizer.state.0.step=T('optimizer','state','0','step') "
	      "optimizer.state.0.exp_avg=T('optimizer','state','0','exp_avg')");
	check("{'optimizer':{'param_groups':[{'lr':.1,'betas':(.9,.99),'params':[0]}]}}",
	      "optimizer.param_groups.0.lr('optimizer','param_groups',0,'lr') "
	      "optimizer.param_groups.0.betas('optimizer','param_groups',0,'betas') "
	      "optimizer.param_groups.0.params('optimizer','param_groups',0,'params')");
	check("{'hist':[1,2,3],'elist':[]}", "hist('hist') elist('elist')");
	check("{'tup':(T,T)}", "tup('tup')");
	check("{'mix':[T,{'a':1}]}", "mix.0=T('mix',0) mix.1.a('mix',1,'a')");
	check("{'cfg':{'d':{'e':1}}}", "cfg.d.e('cfg','d','e')");
	check("{'empty':{}}", "");
	check("{'a':{'b':{}},'c':{'d':{},'e':1}}", "c.e('c','e')");
	check("{'l':[(T,1)]}", "l('l')");
	check("{'l':[[1,2],[T]]}", "l.0('l',0) l.1.0=T('l',1,0)");
	check("{'l':[{'a':1},3]}", "l.0.a('l',0,'a') l.1('l',1)");
	check("{'l':[[1,2],[3]]}", "l('l')");
	check("{0:T}", "0=T('0')");
}

static void mappings_of_any_kind_are_opened_and_nothing_else(void **state)
{
	(void)state;
	check("O{'a':T,'b':O{'c':1}}", "a=T('a') b.c('b','c')");
	check("{'d':D{'x':T}}", "d.x=T('d','x')");
	check("{'c':C{'x':2,'y':1}}", "c.x('c','x') c.y('c','y')");
	check("{'q':Q[T],'s':S[1]}", "q('q') s('s')");
	check("{'t':({'a':T},)}", "t('t')");
	check("{'l':[Q[T]]}", "l('l')");
	check("{'n':None,'f':1.5,'s':'text','w':T}", "n('n') f('f') s('s') w=T('w')");
}

static void keys_are_spelt_as_str_does_it(void **state)
{
	(void)state;
	check("{!:1,None:2,-5:3,(1,2):4,1.5:5,'':6}",
	      "True('True') None('None') -5('-5') (1, 2)('(1, 2)') 1.5('1.5') ('')");
	check("{('a',):1,'it s':2}", "('a',)('('a',)') it s('it s')");
	check("{'':{'':T}}", ".=T('','')");
	check("{'a.b':{'c':T}}", "a.b.c=T('a.b','c')");
}

static void lists_are_looked_at_in_full_before_they_are_opened(void **state)
{
	(void)state;
	check("{'l':[1,2,[3,[4,[T]]]]}",
	      "l.0('l',0) l.1('l',1) l.2.0('l',2,0) l.2.1.0('l',2,1,0) l.2.1.1.0=T('l',2,1,1,0)");
	check("{'l':[[[[]]],[[1],2]]}", "l('l')");
	check("{'l':[[1],[[],[{'a':1}]]]}", "l.0('l',0) l.1.0('l',1,0) l.1.1.0.a('l',1,1,0,'a')");
	/* the same list twice: once below another one, and by itself */
	check("{'a':[&1[1,T]],'b':*1}", "a.0.0('a',0,0) a.0.1=T('a',0,1) b.0('b',0) b.1=T('b',1)");
	check("{'a':&1[1],'b':[*1,T],'c':*1}", "a('a') b.0('b',0) b.1=T('b',1) c('c')");
	check("{'a':[[&1[T]],&2[*1]],'b':*2}",
	      "a.0.0.0=T('a',0,0,0) a.1.0.0=T('a',1,0,0) b.0.0=T('b',0,0)");
}

static void a_list_that_holds_itself_is_no_endless_way(void **state)
{
	(void)state;
	check("{'l':&1[1,*1]}", "l('l')");
	check_fails("{'l':&1[T,*1]}", CKPT_E_UNSUPPORTED, "a container holds itself");
	check_fails("&1{'d':*1}", CKPT_E_UNSUPPORTED, "a container holds itself");
	check_fails("{'a':&1{'b':[*1]}}", CKPT_E_UNSUPPORTED, "a container holds itself");
}

/* torch leaves it out, and its converter then misses it. */
static void an_empty_dict_in_a_list_is_refused(void **state)
{
	static const char *const states[] = { "{'l':[{},3]}", "{'l':[{}]}", "{'l':[{'a':{}},T]}",
					      "{'l':[O{}]}" };

	(void)state;
	for (size_t i = 0; i < COUNT(states); i++)
		check_fails(states[i], CKPT_E_UNSUPPORTED,
			    "'l.0': is an empty dict in a list, which a DCP directory cannot hold");
	check_fails("{'l':[T,[{}]]}", CKPT_E_UNSUPPORTED,
		    "'l.1.0': is an empty dict in a list, which a DCP directory cannot hold");
}

static void two_paths_with_one_key_are_an_error(void **state)
{
	static const char text[] =
		"'a.b': two values would have this key, which joins their paths by dots";

	(void)state;
	check_fails("{'a.b':T,'a':{'b':T}}", CKPT_E_CLASH, text);
	check_fails("{'a':{'b':1},'a.b':2}", CKPT_E_CLASH, text);
	check_fails("{0:T,'0':T}", CKPT_E_CLASH,
		    "'0': two values would have this key, which joins their paths by dots");
	check_fails("{'l':[T],'l.0':1}", CKPT_E_CLASH,
		    "'l.0': two values would have this key, which joins their paths by dots");
}

static void a_root_that_is_no_mapping_is_refused(void **state)
{
	static const char *const roots[] = { "[T]", "T", "(T,)", "1", "None" };

	(void)state;
	for (size_t i = 0; i < COUNT(roots); i++)
		check_fails(roots[i], CKPT_E_UNSUPPORTED,
			    "its root is no dict, and such a directory holds nothing else");
	check("{}", "");
}

/* {'a':{'a':{'a': ... T}}} */
static char *deep(unsigned depth, const char *open, const char *close)
{
	struct ckpt_buf text = { 0 };

	ckpt_buf_printf(&text, "{'k':");
	for (unsigned i = 0; i < depth; i++)
		ckpt_buf_printf(&text, "%s", open);
	ckpt_buf_printf(&text, "T");
	for (unsigned i = 0; i < depth; i++)
		ckpt_buf_printf(&text, "%s", close);
	ckpt_buf_printf(&text, "}");
	ckpt_buf_add_u8(&text, 0);
	return (char *)text.data;
}

static void depth_is_limited(void **state)
{
	char *dicts = deep(999, "{'a':", "}"), *lists = deep(999, "[", "]"),
	     *more_dicts = deep(1000, "{'a':", "}"), *more_lists = deep(1001, "[", "]");
	struct ckpt_model *model = open_state(dicts);
	struct ckpt_dcp_out out;

	(void)state;
	assert_int_equal(ckpt_dcp_flatten(model, NULL, 0, &out, &err), 0);
	assert_int_equal(out.entry_count, 1);
	assert_int_equal(out.entries[0].depth, 1000);
	ckpt_dcp_out_clear(&out);
	ckpt_close(model);
	model = open_state(lists);
	assert_int_equal(ckpt_dcp_flatten(model, NULL, 0, &out, &err), 0);
	assert_int_equal(out.entries[0].depth, 1000);
	ckpt_dcp_out_clear(&out);
	ckpt_close(model);
	check_fails(more_dicts, CKPT_E_LIMIT, "nested deeper than 1000 levels");
	check_fails(more_lists, CKPT_E_LIMIT, "lists are nested too deep");
	free(dicts);
	free(lists);
	free(more_dicts);
	free(more_lists);
	ckpt_buf_clear(&file);
}

static void marked_values_are_one_entry_each(void **state)
{
	struct ckpt_model *model = open_state("{'a':{'b':T},'c':[T],'d':[{'e':1}]}");
	struct ckpt_dcp_out out;
	uint8_t *leaf = calloc(model->next_id, 1);
	const struct ckpt_seq *pairs = ckpt_value_pairs(model->root);
	static const char *const want[] = { "a", "c", "d.0.e" };

	(void)state;
	leaf[pairs->items[1]->id] = 1;
	leaf[pairs->items[3]->id] = 1;
	assert_int_equal(ckpt_dcp_flatten(model, leaf, model->next_id, &out, &err), 0);
	assert_int_equal(out.entry_count, COUNT(want));
	for (size_t i = 0; i < COUNT(want); i++) {
		assert_int_equal(out.entries[i].fqn_len, strlen(want[i]));
		assert_memory_equal(out.entries[i].fqn, want[i], strlen(want[i]));
		assert_false(out.entries[i].is_tensor);
	}
	ckpt_dcp_out_clear(&out);
	free(leaf);
	ckpt_close(model);
	ckpt_buf_clear(&file);
}

UNIT_SUITE(test_dcp_flatten)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_those_of_torch),
		cmocka_unit_test(mappings_of_any_kind_are_opened_and_nothing_else),
		cmocka_unit_test(keys_are_spelt_as_str_does_it),
		cmocka_unit_test(lists_are_looked_at_in_full_before_they_are_opened),
		cmocka_unit_test(a_list_that_holds_itself_is_no_endless_way),
		cmocka_unit_test(an_empty_dict_in_a_list_is_refused),
		cmocka_unit_test(two_paths_with_one_key_are_an_error),
		cmocka_unit_test(a_root_that_is_no_mapping_is_refused),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(marked_values_are_one_entry_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
