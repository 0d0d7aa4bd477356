/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains size mismatches: reads the shapes from the message in the forms that torch, transformers
 * and Lightning print, and says what their differences have in common.
 *
 * The shapes in the message are compared with those in the file: the file that was given need not
 * be the one that was loaded.
 */
#include "tensor/shape.h"
#include "why/match.h"
#include "why/why.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 16, MOST_SHAPES = 2000 };

struct shape {
	uint32_t ndim;
	uint64_t dims[MOST_DIMS];
};

struct mismatch {
	const char *name; /* raw */
	struct shape saved, wanted;
};

struct mismatches {
	struct mismatch *items; /* malloc */
	uint32_t count;
};

/* "10, 512" */
static void read_shape(const char *text, struct shape *s)
{
	*s = (struct shape){ 0 };
	while (s->ndim < MOST_DIMS) {
		text += strcspn(text, "0123456789");
		if (!*text)
			break;
		s->dims[s->ndim++] = strtoull(text, (char **)&text, 10);
	}
}

/* Which group is what: name, saved, wanted. */
static const struct {
	const char *pattern;
	int name, saved, wanted;
} forms[] = {
	{ "size mismatch for ([^\\s:]+): copying a param with shape torch\\.Size\\(\\[([0-9, ]*)\\]\\) from "
	  "checkpoint, the shape in current model is torch\\.Size\\(\\[([0-9, ]*)\\]\\)",
	  0, 1, 2 },
	{ "size mismatch for ([^\\s:]+): copying a param of torch\\.Size\\(\\[([0-9, ]*)\\]\\) from checkpoint, "
	  "where the shape is torch\\.Size\\(\\[([0-9, ]*)\\]\\) in current model",
	  0, 1, 2 },
	{ "- (\\S+): found shape torch\\.Size\\(\\[([0-9, ]*)\\]\\) in the checkpoint and "
	  "torch\\.Size\\(\\[([0-9, ]*)\\]\\) in the model",
	  0, 1, 2 },
	{ "(\\S+) +\\| MISMATCH +\\|[^\\n]{0,80}ckpt: torch\\.Size\\(\\[([0-9, ]*)\\]\\) vs model: ?"
	  "torch\\.Size\\(\\[([0-9, ]*)\\]\\)",
	  0, 1, 2 },
	{ "Size mismatch between saved torch\\.Size\\(\\[([0-9, ]*)\\]\\) and current: "
	  "torch\\.Size\\(\\[([0-9, ]*)\\]\\) for (\\S+)",
	  2, 0, 1 },
};

static void read_mismatches(struct ckpt_why *w, struct mismatches *m)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct ckpt_match match = { 0 };

		while (m->count < MOST_SHAPES &&
		       ckpt_why_match(w, forms[i].pattern, match.end, &match)) {
			struct mismatch *one = &m->items[m->count++];

			one->name = match.part[forms[i].name];
			read_shape(match.part[forms[i].saved], &one->saved);
			read_shape(match.part[forms[i].wanted], &one->wanted);
		}
	}
}

/* ---- what the differences have in common ---- */

static bool only_first_differs(const struct shape *a, const struct shape *b)
{
	return a->ndim == b->ndim && a->ndim && a->dims[0] != b->dims[0] &&
	       !memcmp(a->dims + 1, b->dims + 1, (a->ndim - 1) * sizeof(a->dims[0]));
}

static bool is_transposed(const struct shape *a, const struct shape *b)
{
	return a->ndim == 2 && b->ndim == 2 && a->dims[0] == b->dims[1] && a->dims[1] == b->dims[0];
}

enum kind { OTHER, EMPTY, FIRST_DIM, TRANSPOSED, RESHAPED };

static enum kind kind_of(const struct mismatch *m)
{
	if (ckpt_shape_is_empty(m->saved.dims, m->saved.ndim))
		return EMPTY;
	if (only_first_differs(&m->saved, &m->wanted))
		return FIRST_DIM;
	if (is_transposed(&m->saved, &m->wanted))
		return TRANSPOSED;
	return ckpt_shape_numel(m->saved.dims, m->saved.ndim) ==
			       ckpt_shape_numel(m->wanted.dims, m->wanted.ndim)
		       ? RESHAPED
		       : OTHER;
}

static const char *const reasons[] = {
	[OTHER] =
		"weights in the file have other shapes than in the model: the model was made with another "
		"configuration (width, number of layers, size of the image) than the one that was saved",
	[EMPTY] =
		"weights in the file are empty: they were saved by DeepSpeed ZeRO-3 or FSDP from a process that "
		"held only a part of them",
	[FIRST_DIM] =
		"weights in the file have another number of rows than in the model: the number of classes, of "
		"tokens or of outputs is not the one it was saved with",
	[TRANSPOSED] =
		"weights in the file have rows and columns the other way round: it is of another "
		"implementation (Conv1D in the place of Linear, or TensorFlow)",
	[RESHAPED] = "weights in the file have as many numbers as in the model, in another shape",
};

/* All of one kind, or OTHER. */
static enum kind kind_of_all(const struct mismatches *m)
{
	enum kind kind = kind_of(&m->items[0]);

	for (uint32_t i = 1; i < m->count; i++)
		if (kind_of(&m->items[i]) != kind)
			return OTHER;
	return kind;
}

/* ---- the shapes in the file ---- */

static const char *print_shape(struct ckpt_why *w, const struct shape *s)
{
	const char *text = "[";

	for (uint32_t i = 0; i < s->ndim; i++)
		text = ckpt_why_print(w, "%s%s%" PRIu64, text, i ? ", " : "", s->dims[i]);
	return ckpt_why_print(w, "%s]", text);
}

/* The path of a key in the file; in a DCP directory the key is the path. */
static const char *path_of(struct ckpt_why *w, const struct ckpt_why_dict *dict, const char *key)
{
	if (!dict || !*dict->name)
		return key;
	return ckpt_why_print(w, "%s.%s", dict->name, key);
}

/* 1: the file has that shape under PATH; -1: another one, *FOUND; 0: it has no such path. */
static int find_shape(struct ckpt_why *w, const char *path, const struct shape *s,
		      struct shape *found)
{
	uint64_t count = ckpt_tensor_count(w->facts.model);

	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) < 0 || strcmp(info.name, path) != 0)
			continue;
		*found = (struct shape){ .ndim = info.ndim < MOST_DIMS ? info.ndim : MOST_DIMS };
		memcpy(found->dims, info.shape, found->ndim * sizeof(found->dims[0]));
		return found->ndim == s->ndim &&
				       !memcmp(found->dims, s->dims, s->ndim * sizeof(s->dims[0]))
			       ? 1
			       : -1;
	}
	return 0;
}

static void report_shapes(struct ckpt_why *w, const struct mismatches *m,
			  const struct ckpt_why_dict *dict)
{
	for (uint32_t i = 0; i < m->count && i < 4; i++) {
		const struct mismatch *one = &m->items[i];
		struct shape found;
		int is = w->facts.model
				 ? find_shape(w, path_of(w, dict, one->name), &one->saved, &found)
				 : 0;
		const char *note = !w->facts.model ? "" : is > 0 ? "; so it is in this file" : "";

		if (is < 0)
			note = ckpt_why_print(w, "; in this file it is %s", print_shape(w, &found));
		else if (!is && w->facts.model)
			note = "; this file has no such name";
		ckpt_why_fact(w, "'%s' was saved as %s, the model has %s%s",
			      ckpt_why_show(w, one->name), print_shape(w, &one->saved),
			      print_shape(w, &one->wanted), note);
	}
	if (m->count > 4)
		ckpt_why_fact(w, "and %u more", m->count - 4);
}

/* Advises to leave them out, and to load with strict=False. */
static void advise_drop(struct ckpt_why *w, const struct mismatches *m,
			const struct ckpt_why_dict *dict)
{
	const char *line = "";

	for (uint32_t i = 0; i < m->count; i++)
		line = ckpt_why_print(w, "%s --drop %s", line,
				      ckpt_why_quote(w, path_of(w, dict, m->items[i].name)));
	ckpt_why_command(w, "ckpt select%s %s %s", line, ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_words(
		w,
		"then load_state_dict(..., strict=False): those weights keep what the model was made "
		"with, and have to be trained");
}

static bool all_there(const struct ckpt_why *w, const struct mismatches *m,
		      const struct ckpt_why_dict *dict)
{
	for (uint32_t i = 0; dict && i < m->count; i++)
		if (ckpt_why_find(w, dict, m->items[i].name) < 0)
			return false;
	return dict != NULL;
}

/* Are they of quantized weights, most of them? */
static bool are_quantized(struct ckpt_why *w, const char *const *names, uint32_t count)
{
	enum { MOST_ASKED = 20 };
	uint32_t asked = count < MOST_ASKED ? count : MOST_ASKED, yes = 0;

	for (uint32_t i = 0; i < asked; i++)
		yes += ckpt_why_is_quant_part(names[i]) || ckpt_why_has_quant_items(w, names[i]);
	return yes > asked / 2;
}

static bool report_mismatches(struct ckpt_why *w, const struct mismatches *m)
{
	enum { MOST_DROPS = 12 };
	enum kind kind = kind_of_all(m);
	const struct ckpt_why_dict *dict = NULL;
	const char **names = calloc(m->count, sizeof(*names));
	size_t hits;
	bool quantized;

	for (uint32_t i = 0; names && i < m->count; i++)
		names[i] = m->items[i].name;
	if (names && kind != EMPTY && are_quantized(w, names, m->count)) {
		quantized = ckpt_why_explain_quant_shape(w, names, m->count);
		free(names);
		return quantized;
	}
	if (names)
		dict = ckpt_why_dict_with(w, names, m->count, &hits);
	free(names);
	if (!ckpt_why_begin(w, kind == EMPTY ? "partitioned" : "size_mismatch",
			    all_there(w, m, dict) ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY, "%s",
			    reasons[kind]))
		return true;
	report_shapes(w, m, dict);
	if (kind == EMPTY)
		ckpt_why_words(
			w,
			"put the parts together: 'ckpt merge' of the directory that DeepSpeed wrote, or a "
			"full state dict of FSDP, where it was saved");
	else
		ckpt_why_words(
			w,
			"make the model as it was when it was saved: its numbers are those on the left");
	if (kind != EMPTY && m->count <= MOST_DROPS && all_there(w, m, dict) &&
	    dict->name[0] != '[' && !w->facts.folder)
		advise_drop(w, m, dict);
	if (kind == FIRST_DIM)
		ckpt_why_words(
			w, "in transformers: from_pretrained(..., ignore_mismatched_sizes=True)");
	ckpt_why_end(w);
	return true;
}

bool ckpt_why_explain_shapes(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct mismatches m = { calloc(MOST_SHAPES, sizeof(*m.items)), 0 };
	bool reported = false;

	(void)match;
	if (!m.items) {
		w->failed = CKPT_E_NOMEM;
		return false;
	}
	read_mismatches(w, &m);
	if (m.count)
		reported = report_mismatches(w, &m);
	free(m.items);
	return reported;
}
