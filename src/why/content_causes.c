/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes that are in the contents of a checkpoint that opens: devices that tensors are tagged with,
 * dtypes that older versions of torch lack, text of Python 2, byte order, compressed storages.
 *
 * Only the model is asked, no tensor bytes are read. Without a message such a cause is only
 * possible, as nothing says where the file is loaded; with a message it is certain.
 */
#include "why/why.h"

#include "model/state_dict.h"
#include "model/walk.h"

#include <ckpt/edit.h>

#include <inttypes.h>
#include <string.h>

/* ---- devices ---- */

enum { MOST_TAGS = 16 };

struct tags {
	const char *tag[MOST_TAGS];
	uint64_t count[MOST_TAGS];
	uint32_t used;
	uint64_t meta;
};

static void count_tags(const struct ckpt_model *model, struct tags *t)
{
	uint64_t n = ckpt_tensor_count(model);

	for (uint64_t i = 0; i < n; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;
		uint32_t k = 0;

		if (ckpt_tensor_get(model, i, &info) < 0 || !*info.device ||
		    !strcmp(info.device, "cpu"))
			continue;
		if (!strcmp(info.device, "meta")) {
			t->meta++;
			continue;
		}
		while (k < t->used && strcmp(t->tag[k], info.device) != 0)
			k++;
		if (k == MOST_TAGS)
			continue;
		t->tag[k] = info.device;
		t->count[k]++;
		t->used += k == t->used;
	}
}

bool ckpt_why_check_devices(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct tags t = { 0 };
	bool all_cpu0 = true;

	if (!w->facts.model)
		return false;
	count_tags(w->facts.model, &t);
	for (uint32_t i = 0; i < t.used; i++)
		all_cpu0 &= !strncmp(t.tag[i], "cpu:", 4);
	if (!t.used)
		return false;
	if (ckpt_why_begin(
		    w, "device", match || all_cpu0 ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    all_cpu0
			    ? "its tensors are tagged with a device that no torch knows: it is called 'cpu'"
			    : "its tensors were saved on another device, and torch.load puts them back there, "
			      "which fails where there is none")) {
		for (uint32_t i = 0; i < t.used && i < 4; i++)
			ckpt_why_fact(w, "%" PRIu64 " tensor%s on '%s'", t.count[i],
				      t.count[i] == 1 ? "" : "s", ckpt_why_show(w, t.tag[i]));
		ckpt_why_python_load(w, "%s", ckpt_why_load(w, ", map_location='cpu'"));
		ckpt_why_command(w, "ckpt remap --all cpu %s %s", ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_why_check_meta(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct tags t = { 0 };

	if (!w->facts.model)
		return false;
	count_tags(w->facts.model, &t);
	if (!t.meta)
		return false;
	if (ckpt_why_begin(
		    w, "meta_tensors", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "tensors in it have no data: they were on the device 'meta' when they were saved")) {
		ckpt_why_fact(w, "%" PRIu64 " of %" PRIu64 " tensors", t.meta,
			      ckpt_tensor_count(w->facts.model));
		ckpt_why_words(
			w,
			"save again from the process that has the weights: no tool can bring them back");
		ckpt_why_end(w);
	}
	return true;
}

/* ---- versions of torch ---- */

static const struct {
	const char *dtype, *since;
	bool floating;
} dtypes[] = {
	{ "float8_e5m2", "2.1", true },	      { "float8_e4m3fn", "2.1", true },
	{ "float8_e5m2fnuz", "2.2", true },   { "float8_e4m3fnuz", "2.2", true },
	{ "uint16", "2.3", false },	      { "uint32", "2.3", false },
	{ "uint64", "2.3", false },	      { "float8_e8m0fnu", "2.7", true },
	{ "float4_e2m1fn_x2", "2.8", false },
};

bool ckpt_why_check_versions(struct ckpt_why *w, const struct ckpt_match *match)
{
	uint64_t n = w->facts.model ? ckpt_tensor_count(w->facts.model) : 0, count = 0;
	const char *name = NULL;
	int newest = -1;

	if (w->facts.identity.nature == CKPT_NATURE_SAFETENSORS)
		return false; /* it names no function of torch */
	for (uint64_t i = 0; i < n; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(w->facts.model, i, &info) < 0)
			continue;
		for (int k = 0; k < (int)(sizeof(dtypes) / sizeof(dtypes[0])); k++) {
			if (strcmp(info.dtype, dtypes[k].dtype))
				continue;
			count++;
			if (k > newest) {
				newest = k;
				name = info.name;
			}
		}
	}
	if (newest < 0)
		return false;
	if (ckpt_why_begin(
		    w, "torch_too_old", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "it has numbers of a kind (%s) that torch has since %s: an older one does not find "
		    "_rebuild_tensor_v3 or the dtype",
		    dtypes[newest].dtype, dtypes[newest].since)) {
		ckpt_why_fact(w, "%" PRIu64 " tensors, one of them '%s'", count,
			      ckpt_why_show(w, name));
		ckpt_why_words(w, "load it with torch %s or later", dtypes[newest].since);
		if (dtypes[newest].floating && !ckpt_why_may_have_scales(w))
			ckpt_why_command(w, "ckpt cast float32 %s %s", ckpt_why_in(w),
					 ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

/* ---- bytes ---- */

static bool is_not_ascii(const struct ckpt_value *v)
{
	if (v->kind != CKPT_PY2_STR)
		return false;
	for (uint64_t i = 0; i < v->u.bytes.len; i++)
		if ((unsigned char)v->u.bytes.ptr[i] >= 0x80)
			return true;
	return false;
}

static int find_python2_text(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct ckpt_why *w = ctx;
	const struct ckpt_seq *pairs = step->seen ? NULL : ckpt_value_pairs(step->value);

	(void)err;
	if (is_not_ascii(step->value))
		return CKPT_E_CANCELLED; /* found */
	for (uint32_t i = 0; pairs && i < pairs->count; i += 2)
		if (is_not_ascii(ckpt_model_now(w->facts.model, pairs->items[i])))
			return CKPT_E_CANCELLED;
	return CKPT_WALK_ENTER;
}

static bool report_python2(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (ckpt_model_walk(w->facts.model, find_python2_text, w, NULL) != CKPT_E_CANCELLED)
		return false;
	if (ckpt_why_check_danger(w, match))
		return true;
	if (ckpt_why_begin(
		    w, "python2_text", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "it was saved by Python 2, with text in it of which Python 3 does not know the encoding")) {
		ckpt_why_python_load(w, "%s",
				ckpt_why_load(w, ", encoding='latin1', weights_only=False"));
		ckpt_why_words(
			w,
			"weights_only=False runs what the file says: only if you trust where it comes "
			"from");
		ckpt_why_end(w);
	}
	return true;
}

static bool report_byteorder(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (strcmp(w->facts.file.byteorder, "big"))
		return false;
	if (ckpt_why_begin(
		    w, "big_endian", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "it was written on a big-endian machine: torch before 2.1 takes its numbers for others, "
		    "without a word")) {
		ckpt_why_command(w, "ckpt convert %s %s", ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

static bool report_compressed(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (!w->facts.file.compressed)
		return false;
	if (ckpt_why_begin(
		    w, "compressed_storages", match ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_POSSIBLE,
		    "storages in it are compressed, as another tool packed them: with mmap=True torch loads "
		    "garbage, without a word")) {
		ckpt_why_fact(w, "%u storages", w->facts.file.compressed);
		ckpt_why_command(w, "ckpt convert %s %s", ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

bool ckpt_why_check_bytes(struct ckpt_why *w, const struct ckpt_match *match)
{
	bool reported;

	if (!w->facts.model || w->facts.file.is_program)
		return false;
	reported = report_byteorder(w, match);
	reported |= report_compressed(w, match);
	return report_python2(w, match) || reported;
}
