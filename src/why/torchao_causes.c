/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torchao says of the metadata of a safetensors file, in which the classes of tensors are: a class that it does not know,
 * and no list of what to build. torchao 0.18, prototype/safetensors, unflatten_tensor_state_dict() and object_from_dict().
 */
#include "why/why.h"

#include "format/format.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_SHOWN = 3 };

/* What is looked for in the metadata, and found. */
struct classes {
	struct ckpt_why *w;
	const char *class; /* NULL: any but a plain tensor */
	const char *names[MOST_SHOWN];
	uint64_t count;
	bool is_list_there; /* "tensor_names" */
};

/* Has the JSON TEXT a "_type" that is CLASS, or, if that is NULL, one that is not "Tensor"? */
static bool has_class(const char *text, size_t len, const char *class)
{
	static const char key[] = "\"_type\"";
	const char *end = text + len, *at = text;

	while ((at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1))) {
		const char *name = at += sizeof(key) - 1, *quote;

		while (name < end && (*name == ' ' || *name == ':'))
			name++;
		quote = name < end && *name == '"' ? memchr(name + 1, '"', (size_t)(end - name - 1)) : NULL;
		if (!quote)
			continue;
		len = (size_t)(quote - name - 1);
		if (class ? len == strlen(class) && !memcmp(name + 1, class, len) : len != 6 || memcmp(name + 1, "Tensor", 6) != 0)
			return true;
	}
	return false;
}

static int visit(void *ctx, const char *key, size_t key_len, const char *value, size_t value_len)
{
	struct classes *c = ctx;

	if (key_len == 12 && !memcmp(key, "tensor_names", 12))
		c->is_list_there = true;
	else if (value_len && *value == '{' && has_class(value, value_len, c->class) && c->count++ < MOST_SHOWN)
		c->names[c->count - 1] = ckpt_why_print(c->w, "%.*s", (int)key_len, key);
	return 0;
}

static void read_classes(struct ckpt_why *w, struct classes *c)
{
	const struct ckpt_format *format = w->facts.model ? w->facts.model->doc->format : NULL;

	if (format && format->parts_metadata)
		format->parts_metadata(w->facts.model, visit, c);
	else if (format && format->metadata)
		format->metadata(w->facts.model, visit, c);
}

/* "'a', 'b' and 3 more" */
static const char *show_names(struct classes *c)
{
	const char *text = "";

	for (uint64_t i = 0; i < c->count && i < MOST_SHOWN; i++)
		text = ckpt_why_print(c->w, "%s%s'%s'", text, i ? ", " : "", ckpt_why_show(c->w, c->names[i]));
	return c->count > MOST_SHOWN ? ckpt_why_print(c->w, "%s and %" PRIu64 " more", text, c->count - MOST_SHOWN) : text;
}

static void advise_cast(struct ckpt_why *w)
{
	if (!ckpt_why_add_quantized(w) && !w->facts.path)
		ckpt_why_command(w, "ckpt cast --dequantize bf16 %s %s", ckpt_why_in(w), ckpt_why_out(w));
}

bool ckpt_why_explain_quant_class(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct classes c = { .w = w, .class = match->part[0] };

	if (w->facts.path && !w->facts.model)
		return ckpt_why_check_file(w, match);
	read_classes(w, &c);
	if (!ckpt_why_begin(w, "quantized", c.count ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
			    "torchao, in this version, does not know the class '%s', which the metadata of the checkpoint name",
			    ckpt_why_show(w, match->part[0])))
		return true;
	if (c.count)
		ckpt_why_fact(w, "the metadata name it of %s", show_names(&c));
	else if (w->facts.model)
		ckpt_why_fact(w, "the metadata of this file do not name it");
	advise_cast(w);
	ckpt_why_words(w, "or install the version of torchao that wrote it, or a newer one");
	ckpt_why_end(w);
	return true;
}

bool ckpt_why_explain_quant_list(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct classes c = { .w = w };
	bool is_certain;

	if (w->facts.path && !w->facts.model)
		return ckpt_why_check_file(w, match);
	read_classes(w, &c);
	is_certain = c.count && !c.is_list_there;
	if (!ckpt_why_begin(w, "quantized", is_certain ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
			    "torchao builds the tensors that 'tensor_names' in the metadata of a safetensors file lists, and it was given metadata "
			    "without that list, or with one that does not fit them"))
		return true;
	if (c.count)
		ckpt_why_fact(w, "the metadata of this file have %s'tensor_names', and name classes of torchao of %s",
			      c.is_list_there ? "" : "no ", show_names(&c));
	else if (w->facts.model)
		ckpt_why_fact(w, "the metadata of this file name no class of torchao");
	advise_cast(w);
	ckpt_why_words(w, "write it again with the metadata that flatten_tensor_state_dict() gives, all of them: save_file(tensors, path, "
			  "metadata=metadata)");
	ckpt_why_end(w);
	return true;
}
