/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains messages that come after loading, when a program uses what it loaded: a dict taken for a
 * model, an entry that is missing, another optimizer, a path.
 *
 * As in load_messages.c the causes that the file itself shows go first. root_of() wants a model:
 * check for one before.
 */
#include "why/why.h"

#include "model/state_dict.h"

#include <string.h>

/* ---- 'dict' object has no attribute 'eval' ---- */

bool ckpt_why_explain_attribute(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *type = match->part[0], *name = match->part[1];
	bool is_dict = !strcmp(type, "dict") || strstr(type, "OrderedDict");

	if (!is_dict && !strcmp(name, "copy") && ckpt_why_explain_dict_like(w, match))
		return true; /* load_state_dict() of torch before 1.13 */
	if (!is_dict)
		return w->facts.module && ckpt_why_check_module(w, match);
	if (!ckpt_why_begin(
		    w, "not_a_model", w->facts.model ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "what was loaded is a dict of weights, not a model: it has no '%s'. The model is made by "
		    "your code, and takes the weights",
		    ckpt_why_show(w, name)))
		return true;
	if (w->facts.model) {
		ckpt_why_fact(w, "in the file is: %s%s", w->facts.root_type,
			      w->facts.module ? ", with a whole model in it" : "");
		ckpt_why_python_load(w, "model.load_state_dict(%s)",
				ckpt_why_load_dict(w, ckpt_why_largest(w)));
	} else {
		ckpt_why_words(
			w, "model = Net(...); model.load_state_dict(torch.load(PATH)); model.%s()",
			ckpt_why_show(w, name));
	}
	ckpt_why_end(w);
	return true;
}

/* ---- Expected state_dict to be dict-like, got <class 'X'> ---- */

bool ckpt_why_explain_dict_like(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (ckpt_why_check_module(w, match) || ckpt_why_check_program(w, match))
		return true;
	if (!ckpt_why_begin(w, "not_a_dict",
			    w->facts.model ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
			    "load_state_dict() was given something that is no dict of weights"))
		return true;
	if (w->facts.model)
		ckpt_why_fact(w, "in the file is: %s", w->facts.root_type);
	ckpt_why_words(w, "'ckpt info %s' shows what is in it", ckpt_why_in(w));
	ckpt_why_words(w, "if it is a model: load_state_dict(loaded.state_dict())");
	ckpt_why_end(w);
	return true;
}

/* ---- KeyError: 'state_dict' ---- */

static const struct ckpt_value *root_of(const struct ckpt_why *w)
{
	return ckpt_model_now(w->facts.model, w->facts.model->root);
}

/* The entries that the file has instead. */
static const char *list_entries(struct ckpt_why *w)
{
	const struct ckpt_seq *pairs = ckpt_value_pairs(root_of(w));
	const char *text = "";
	uint32_t shown = 0;

	for (uint32_t i = 0; pairs && i + 1 < pairs->count && shown < 8; i += 2) {
		const struct ckpt_value *k = ckpt_model_now(w->facts.model, pairs->items[i]);

		if (k->kind != CKPT_STR && k->kind != CKPT_PY2_STR)
			continue;
		text = ckpt_why_print(w, "%s%s'%s'", text, shown++ ? ", " : "",
				      ckpt_why_show(w,
						    ckpt_why_print(w, "%.*s", (int)k->u.bytes.len,
								   k->u.bytes.ptr)));
	}
	return pairs && pairs->count / 2 > shown
		       ? ckpt_why_print(w, "%s and %u more", text, pairs->count / 2 - shown)
		       : text;
}

static bool report_lightning(struct ckpt_why *w)
{
	if (ckpt_why_begin(
		    w, "not_lightning", w->facts.model ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "Lightning's Trainer did not write this file: it has no 'pytorch-lightning_version', nor "
		    "the state of loops and optimizers beside the weights")) {
		if (w->facts.model)
			ckpt_why_fact(w, "the file has %s", list_entries(w));
		ckpt_why_python_load(w, "model.load_state_dict(%s)", ckpt_why_load(w, ""));
		ckpt_why_words(
			w,
			"that gives the weights to the module inside of the LightningModule; a run is "
			"resumed from a file of trainer.save_checkpoint() alone");
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_why_explain_entry(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *name = match->part[0];
	const struct ckpt_why_dict *dict = ckpt_why_largest(w);

	if (ckpt_why_is_quant_part(name)) /* of vLLM: its model has no such part */
		return ckpt_why_explain_quant_part(w, match);
	if (w->facts.model && ckpt_mapping_find(w->facts.model, root_of(w), name))
		return false; /* it is there: the message is about something else */
	if (!strcmp(name, "pytorch-lightning_version"))
		return report_lightning(w);
	if (!w->facts.model)
		return ckpt_why_check_file(w, match);
	if (!ckpt_value_pairs(root_of(w)))
		return false;
	if (!ckpt_why_begin(
		    w, "no_entry", CKPT_CAUSE_CERTAIN,
		    "the file has no entry '%s': the program that reads it expects another layout",
		    ckpt_why_show(w, name)))
		return true;
	ckpt_why_fact(w, "it has %s", list_entries(w));
	if (dict && ckpt_why_has_plain_name(dict))
		ckpt_why_python_load(w, "model.load_state_dict(%s)", ckpt_why_load_dict(w, dict));
	ckpt_why_words(
		w,
		"the weights are %s%s%s; where the program is not yours: an option of it may name the entry",
		!dict	      ? "not in it"
		: *dict->name ? "under '"
			      : "the whole file",
		dict ? ckpt_why_show(w, dict->name) : "", dict && *dict->name ? "'" : "");
	ckpt_why_end(w);
	return true;
}

/* ---- optimizers ---- */

static uint32_t count_groups(struct ckpt_why *w, uint32_t *params)
{
	const struct ckpt_value *optimizer = NULL, *groups, *list;
	uint32_t count = 0;

	*params = 0;
	if (!w->facts.model || !w->facts.optimizer)
		return 0;
	optimizer = *w->facts.optimizer
			    ? ckpt_mapping_find(w->facts.model, root_of(w), w->facts.optimizer)
			    : root_of(w);
	groups = optimizer ? ckpt_mapping_find(w->facts.model, optimizer, "param_groups") : NULL;
	if (!groups || groups->kind != CKPT_LIST)
		return 0;
	for (uint32_t i = 0; i < groups->u.seq.count; i++) {
		list = ckpt_mapping_find(w->facts.model,
					 ckpt_model_now(w->facts.model, groups->u.seq.items[i]),
					 "params");
		count++;
		if (list && list->kind == CKPT_LIST)
			*params += list->u.seq.count;
	}
	return count;
}

bool ckpt_why_explain_optimizer(struct ckpt_why *w, const struct ckpt_match *match)
{
	bool sizes = strstr(match->all, "size of optimizer") != NULL;
	uint32_t params, groups = count_groups(w, &params);

	if (!ckpt_why_begin(
		    w, "optimizer_mismatch", groups ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    sizes ? "the optimizer has another number of parameters than the one that was saved: the "
			    "model has more or fewer of them, or others are frozen"
			  : "the optimizer has another number of parameter groups than the one that was saved"))
		return true;
	if (groups)
		ckpt_why_fact(w, "%s%s%s was saved with %u group%s of %u parameters",
			      *w->facts.optimizer ? "'" : "the file",
			      ckpt_why_show(w, w->facts.optimizer), *w->facts.optimizer ? "'" : "",
			      groups, groups == 1 ? "" : "s", params);
	ckpt_why_words(
		w, "make the optimizer from the same parameters, in the same groups, before its "
		   "load_state_dict()");
	ckpt_why_words(w, "or load the weights alone and let the optimizer begin anew");
	if (groups && *w->facts.optimizer && w->facts.optimizer[0] != '[')
		ckpt_why_command(w, "ckpt select --drop %s %s %s",
				 ckpt_why_quote(w, w->facts.optimizer), ckpt_why_in(w),
				 ckpt_why_out(w));
	ckpt_why_end(w);
	return true;
}

/* ---- paths ---- */

/* "No such file or directory: 'd/.metadata'", "Is a directory", "Permission denied" */
bool ckpt_why_explain_path(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *path = match->part[0], *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	if (ckpt_why_check_directory(w, match) || ckpt_why_check_file(w, match))
		return true;
	if (!strcmp(name, ".metadata") || strstr(name, ".distcp")) {
		if (ckpt_why_begin(
			    w, w->facts.model ? "not_sharded" : "dcp_no_index", CKPT_CAUSE_LIKELY,
			    w->facts.model
				    ? "torch.distributed.checkpoint loads directories, and this is one "
				      "file of torch.save"
				    : "torch.distributed.checkpoint found no '%s': the directory is not "
				      "the checkpoint's own, or a save was interrupted",
			    ckpt_why_show(w, name))) {
			if (w->facts.model)
				ckpt_why_command(w, "ckpt split --ranks 1 %s %s", ckpt_why_in(w),
						 ckpt_why_shards(w));
			if (w->facts.model)
				ckpt_why_python_load(w, "%s", ckpt_why_load(w, ""));
			else
				ckpt_why_words(
					w,
					"name the directory that has '.metadata' in it: 'ls -A DIR'");
			ckpt_why_end(w);
		}
		return true;
	}
	return false;
}
