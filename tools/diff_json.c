/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences of 'ckpt diff' as JSON, written as ckpt_diff() finds them.
 *
 * What must stay true: DIFF_WORDS has the bits of enum ckpt_difference_what, lowest first, and
 * KINDS the values of enum ckpt_difference_kind (include/ckpt/diff.h).
 */
#include "diff.h"
#include "json.h"

#include <math.h>

const char *const diff_words[] = { "type",  "shape", "dtype",	"device", "layout", "quantizer",
				   "value", "bits",  "strides", "class",  "order", "attributes", "keys", NULL };

static json_t *real_json(double v)
{
	if (isfinite(v))
		return json_real(v);
	return json_string(isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

static void set_u64(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_u64(v));
}

static json_t *side_json(const struct ckpt_diff_side *s)
{
	json_t *o = json_object();

	json_object_set_new(o, "type", json_string(s->type));
	if (!s->is_array) {
		json_set_name(o, "text", s->text);
		return o;
	}
	json_object_set_new(o, "dtype", json_string(s->dtype));
	json_object_set_new(o, "shape", json_dims(s->shape, s->ndim));
	json_set_name(o, "device", s->device);
	json_set_name(o, "layout", s->layout);
	if (s->class_name)
		json_set_name(o, "class", s->class_name);
	set_u64(o, "nbytes", s->nbytes);
	return o;
}

static json_t *numbers_json(const struct ckpt_diff_numbers *n)
{
	json_t *o = json_object();

	set_u64(o, "count", n->count);
	set_u64(o, "differing", n->differing);
	set_u64(o, "outside", n->outside);
	if (!n->has_numbers)
		return o;
	set_u64(o, "other_bits", n->other_bits);
	set_u64(o, "nan_appeared", n->nan_appeared);
	set_u64(o, "nan_vanished", n->nan_vanished);
	set_u64(o, "nan_both", n->nan_both);
	set_u64(o, "inf_appeared", n->inf_appeared);
	set_u64(o, "inf_vanished", n->inf_vanished);
	json_object_set_new(o, "max_abs", real_json(n->max_abs));
	json_object_set_new(o, "max_rel", real_json(n->max_rel));
	json_object_set_new(o, "rms", real_json(n->rms));
	json_object_set_new(o, "change", real_json(n->change));
	json_object_set_new(o, "cosine", isnan(n->cosine) ? json_null() : real_json(n->cosine));
	json_object_set_new(o, "max_ulp", n->has_ulp ? json_u64(n->max_ulp) : json_null());
	return o;
}

static json_t *what_json(unsigned what)
{
	json_t *list = json_array();

	for (int i = 0; diff_words[i]; i++)
		if (what >> i & 1)
			json_array_append_new(list, json_string(diff_words[i]));
	return list;
}

int diff_json_add(void *ctx, const struct ckpt_difference *f)
{
	static const char *const kinds[] = { "removed", "added", "renamed", "changed",
					     "unreadable" };
	struct diff_json *d = ctx;
	const struct ckpt_diff_side *side = f->a ? f->a : f->b;
	json_t *o = json_object();

	json_object_set_new(o, "kind", json_string(kinds[f->kind]));
	json_set_name(o, "name", f->name);
	if (f->other_name)
		json_set_name(o, "other_name", f->other_name);
	json_object_set_new(o, "tensor",
			    json_boolean(side->is_array && (!f->a || !f->b || f->b->is_array)));
	if (f->what)
		json_object_set_new(o, "what", what_json(f->what));
	if (f->within)
		json_set_name(o, "within", f->within);
	if (f->a)
		json_object_set_new(o, "a", side_json(f->a));
	if (f->b)
		json_object_set_new(o, "b", side_json(f->b));
	if (f->numbers)
		json_object_set_new(o, "numbers", numbers_json(f->numbers));
	if (f->kind == CKPT_DIFFERENCE_RENAMED)
		json_object_set_new(o, "by_checksum", json_boolean(f->by_checksum));
	if (f->text)
		json_set_name(o, "text", f->text);
	if (f->of_optimizer)
		json_object_set_new(o, "optimizer", json_true());
	if (f->is_counter)
		json_object_set_new(o, "counter", json_true());
	if (d->view.depth && f->kind == CKPT_DIFFERENCE_CHANGED && f->a->is_array &&
	    f->b->is_array && !f->of_optimizer && !f->is_counter &&
	    !diff_sums_add(&d->blocks, f, d->view.depth)) {
		json_decref(o);
		return CKPT_E_NOMEM;
	}
	fputs(d->any ? ",\n" : "\n", d->out);
	json_put(d->out, o);
	d->any = true;
	return ferror(d->out) ? CKPT_E_IO : 0;
}

void diff_json_begin(struct diff_json *d, const char *path, bool first)
{
	json_t *name = json_object();

	json_set_name(name, "path", path);
	fputs(first ? "\n{\"input\":" : ",\n{\"input\":", d->out);
	json_put(d->out, name);
	fputs(",\"differences\":[", d->out);
	d->any = false;
}

static void put_counts(FILE *out, const char *key, const struct ckpt_diff_counts *c)
{
	json_t *o = json_object();

	set_u64(o, "same", c->same);
	set_u64(o, "changed", c->changed);
	set_u64(o, "removed", c->removed);
	set_u64(o, "added", c->added);
	set_u64(o, "renamed", c->renamed);
	set_u64(o, "unreadable", c->unreadable);
	fprintf(out, ",\"%s\":", key);
	json_put(out, o);
}

static void put_report(FILE *out, const struct ckpt_diff_report *r, bool quick)
{
	json_t *o = json_object();

	put_counts(out, "tensors", &r->tensors);
	put_counts(out, "values", &r->values);
	json_object_set_new(o, "compared",
			    json_string(quick		 ? "descriptions"
					: r->by_checksum ? "checksums"
							 : "bytes"));
	set_u64(o, "by_checksum", r->by_checksum);
	set_u64(o, "by_checksum_nbytes", r->by_checksum_nbytes);
	set_u64(o, "read_nbytes", r->read_nbytes);
	set_u64(o, "other_bits", r->other_bits);
	set_u64(o, "tolerated", r->tolerated);
	set_u64(o, "other_keys", r->other_keys);
	if (r->prefixed) {
		json_object_set_new(o, "prefixed", json_string(r->prefixed == 'a' ? "a" : "b"));
		json_set_name(o, "prefix", r->prefix);
		set_u64(o, "prefix_count", r->prefix_count);
	}
	fputs(",\"report\":", out);
	json_put(out, o);
}

static void put_blocks(struct diff_json *d)
{
	diff_sums_finish(&d->blocks, d->view.order);
	fputs(",\"blocks\":[", d->out);
	for (size_t i = 0; i < d->blocks.count; i++) {
		const struct diff_sum *s = &d->blocks.items[i];
		json_t *o = json_object();

		json_set_name(o, "name", s->name);
		set_u64(o, "tensors", s->tensors);
		set_u64(o, "other_shape", s->other_shape);
		set_u64(o, "other_dtype", s->other_dtype);
		set_u64(o, "other_device", s->other_device);
		if (s->numbers.count)
			json_object_set_new(o, "numbers", numbers_json(&s->numbers));
		fputs(i ? ",\n" : "\n", d->out);
		json_put(d->out, o);
	}
	fputs("]", d->out);
}

void diff_json_end(struct diff_json *d, const struct ckpt_diff_report *r,
		   const struct ckpt_error *err)
{
	char text[1200];

	fputs("]", d->out);
	if (err->status < 0) {
		fputs(",\"verdict\":\"error\",\"error\":", d->out);
		json_put(d->out, json_string(ckpt_error_format(err, text, sizeof(text))));
	} else {
		fprintf(d->out, ",\"verdict\":\"%s\"",
			r->tensors.unreadable || r->values.unreadable ? "unreadable"
			: r->same				      ? "same"
								      : "different");
		put_report(d->out, r, d->quick);
		if (d->view.depth)
			put_blocks(d);
	}
	diff_sums_clear(&d->blocks);
	fputs("}", d->out);
}
