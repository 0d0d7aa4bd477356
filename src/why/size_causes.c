/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a file much larger than the model in it: bytes that no tensor shows, an optimizer, copies
 * of the weights, what edits in place left. None of it keeps a file from loading, so they are reported
 * behind the causes that do, and apart from them.
 *
 * <ckpt/parts.h> finds it; here are the words and the commands. Nothing is said of a file that is less
 * than half as large again as its model.
 */
#include "why/why.h"

#include <ckpt/parts.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Less than this is not worth a word, if it is only headers. */
static const uint64_t LEAST_HEADERS = 1 << 20;

enum { MOST_PLACES = 4 };

/* As the command prints sizes: in powers of 1000, "1.4K". */
static const char *size_text(struct ckpt_why *w, uint64_t nbytes)
{
	static const char units[] = "KMGTPE";
	uint64_t unit = 1, tenths;
	int i = -1;

	while (i < 5 && nbytes >= unit * 1000 - unit / 2) {
		unit *= 1000;
		i++;
	}
	if (i < 0)
		return ckpt_why_print(w, "%" PRIu64 " byte%s", nbytes, nbytes == 1 ? "" : "s");
	tenths = nbytes / (unit / 10) + (nbytes % (unit / 10) >= unit / 20);
	if (tenths < 100)
		return ckpt_why_print(w, "%" PRIu64 ".%" PRIu64 "%c", tenths / 10, tenths % 10,
				      units[i]);
	return ckpt_why_print(w, "%" PRIu64 "%c", nbytes / unit + (nbytes % unit >= unit / 2),
			      units[i]);
}

/* All of one kind. */
struct extra_sum {
	uint64_t nbytes, tensors;
	const char *places[MOST_PLACES], *same_as[MOST_PLACES];
	uint32_t place_count;
	bool more; /* places */
};

static void add_up(const struct ckpt_parts *parts, enum ckpt_extra_kind kind, struct extra_sum *sum)
{
	*sum = (struct extra_sum){ 0 };
	for (uint64_t i = 0; i < ckpt_extra_count(parts); i++) {
		struct ckpt_extra extra = CKPT_EXTRA_INIT;

		ckpt_extra_get(parts, i, &extra);
		if (extra.kind != kind)
			continue;
		if (__builtin_add_overflow(sum->nbytes, extra.nbytes, &sum->nbytes))
			sum->nbytes = UINT64_MAX;
		sum->tensors += extra.tensors;
		if (!extra.place)
			continue;
		if (sum->place_count == MOST_PLACES) {
			sum->more = true;
			continue;
		}
		sum->places[sum->place_count] = extra.place;
		sum->same_as[sum->place_count++] = extra.same_as;
	}
}

/* Formats of which every edit writes one of the same kind. */
static bool can_be_edited(const struct ckpt_why *w)
{
	switch (w->facts.file.format_code) {
	case CKPT_FORMAT_TORCH_ZIP:
	case CKPT_FORMAT_TORCH_LEGACY:
	case CKPT_FORMAT_SAFETENSORS:
	case CKPT_FORMAT_DCP:
	case CKPT_FORMAT_HUGGING_FACE: return true;
	default: return false;
	}
}

static bool is_plain_pattern(const char *name)
{
	const char *rest = !strncmp(name, "*.", 2) ? name + 2 : name;

	return *name && *name != '-' && strncmp(name, "re:", 3) != 0 && !strpbrk(rest, "*?[]\\");
}

/* " --drop NAME --drop NAME", or NULL: that would not drop all of it, or more than it. */
static const char *drops_of(struct ckpt_why *w, const struct extra_sum *sum)
{
	const char *drops = "";

	for (uint32_t i = 0; i < sum->place_count; i++) {
		if (!is_plain_pattern(sum->places[i]))
			return NULL;
		drops = ckpt_why_print(w, "%s --drop %s", drops, ckpt_why_quote(w, sum->places[i]));
	}
	return sum->more ? NULL : drops;
}

static void add_places(struct ckpt_why *w, const struct extra_sum *sum)
{
	for (uint32_t i = 0; i < sum->place_count; i++)
		if (sum->same_as[i])
			ckpt_why_fact(w, "'%s' has the shapes of '%s'",
				      ckpt_why_show(w, sum->places[i]),
				      ckpt_why_show(w, sum->same_as[i]));
		else if (*sum->places[i])
			ckpt_why_fact(w, "it is '%s'", ckpt_why_show(w, sum->places[i]));
}

static void mend_by_dropping(struct ckpt_why *w, const struct extra_sum *sum)
{
	const char *drops = drops_of(w, sum);

	if (can_be_edited(w) && drops)
		ckpt_why_command(w, "ckpt select%s %s %s", drops, ckpt_why_in(w), ckpt_why_out(w));
	else
		ckpt_why_words(
			w, "take the weights alone out of it: 'ckpt extract' or 'ckpt convert'");
}

static const struct {
	enum ckpt_extra_kind kind;
	const char *id, *text; /* what so many bytes are */
} sizes[] = {
	{ CKPT_EXTRA_UNSEEN, "large_views",
	  "bytes that no tensor shows: torch.save writes the whole storage of a tensor, however small a "
	  "part of it the tensor is" },
	{ CKPT_EXTRA_OPTIMIZER, "large_optimizer",
	  "the state of an optimizer, which only training needs" },
	{ CKPT_EXTRA_COPY, "large_copies",
	  "another set of the weights, an average by its name (EMA)" },
	{ CKPT_EXTRA_TWIN, "large_twins",
	  "weights with the names and shapes of others in the file: a copy, "
	  "or a second model" },
	{ CKPT_EXTRA_DEAD, "large_dead", NULL /* dead_text() */ },
	{ CKPT_EXTRA_UNUSED, "large_unused", "storages that no tensor mentions" },
	{ CKPT_EXTRA_HEADERS, "large_headers",
	  "headers and padding, of which there is some for every tensor, and what is not shown as a tensor here" },
};

/* Dead bytes may be holes, or less than a block each: then the disk has no block that --free could give back. */
static const char *dead_text(struct ckpt_why *w, char *buf, size_t size)
{
	const struct ckpt_file_info *file = &w->facts.file;

	if (!file->dead_on_disk)
		snprintf(buf, size, "dead bytes, which edits in place left, but take no block of the disk: holes (--free), or "
			 "less than a block; the size of the file counts them, and an upload sends them");
	else if (file->dead_on_disk < file->dead_nbytes)
		snprintf(buf, size, "dead bytes, which edits in place left; --free gives back the %s of them that are "
			 "blocks of the disk", size_text(w, file->dead_on_disk));
	else
		snprintf(buf, size, "dead bytes, which edits in place left");
	return buf;
}

static void report_extra(struct ckpt_why *w, size_t i, const struct extra_sum *sum)
{
	char dead[240];

	if (!ckpt_why_begin(w, sizes[i].id, CKPT_CAUSE_LARGE, "%s of the %s are %s",
			    size_text(w, sum->nbytes), size_text(w, w->facts.file.file_nbytes),
			    sizes[i].text ? sizes[i].text : dead_text(w, dead, sizeof(dead))))
		return;
	if (sizes[i].kind != CKPT_EXTRA_UNSEEN)
		add_places(w, sum);
	switch (sizes[i].kind) {
	case CKPT_EXTRA_UNSEEN:
		if (sum->tensors == 1)
			ckpt_why_fact(w, "'%s' shows a part of its storage", ckpt_why_show(w, sum->places[0]));
		else
			ckpt_why_fact(w, "%" PRIu64 " of %" PRIu64 " tensors show a part of a storage; most of it is behind '%s'",
				      sum->tensors, ckpt_tensor_count(w->facts.model), ckpt_why_show(w, sum->places[0]));
		ckpt_why_command(w, "ckpt compact %s %s", ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_words(w, "where it is saved: save tensor.clone()");
		break;
	case CKPT_EXTRA_OPTIMIZER:
	case CKPT_EXTRA_COPY: mend_by_dropping(w, sum); break;
	case CKPT_EXTRA_TWIN:
		mend_by_dropping(w, sum);
		ckpt_why_words(
			w, "only if it is a copy: nothing but the names and shapes was compared");
		break;
	case CKPT_EXTRA_DEAD:
		ckpt_why_command(w, "ckpt compact %s %s", ckpt_why_in(w), ckpt_why_out(w));
		break;
	case CKPT_EXTRA_UNUSED:
		ckpt_why_command(w, "ckpt convert %s %s", ckpt_why_in(w), ckpt_why_out(w));
		break;
	case CKPT_EXTRA_HEADERS:
		ckpt_why_words(w, "one tensor of many values takes less than many small ones");
		break;
	}
	ckpt_why_end(w);
}

/* What the rest is held against: the model, or all that is shown if there is none. */
static uint64_t base_of(const struct ckpt_parts *parts)
{
	uint64_t nbytes[CKPT_PARTS], model, all;

	for (int i = 0; i < CKPT_PARTS; i++) {
		struct ckpt_part_size size = CKPT_PART_SIZE_INIT;

		ckpt_parts_get(parts, (enum ckpt_part)i, &size);
		nbytes[i] = size.nbytes < UINT64_MAX / 8 ? size.nbytes : UINT64_MAX / 8;
	}
	model = nbytes[CKPT_PART_PARAMETER] + nbytes[CKPT_PART_BUFFER];
	all = model + nbytes[CKPT_PART_OPTIMIZER] + nbytes[CKPT_PART_COPY] +
	      nbytes[CKPT_PART_OTHER];
	return model ? model : all;
}

/* What counts of a kind: without a model, what belongs to none; of headers, only very many. */
static uint64_t bytes_of(const struct ckpt_parts *parts, enum ckpt_extra_kind kind, uint64_t base)
{
	bool of_tensors =
		kind == CKPT_EXTRA_OPTIMIZER || kind == CKPT_EXTRA_COPY || kind == CKPT_EXTRA_TWIN;
	struct extra_sum sum;

	add_up(parts, kind, &sum);
	if (of_tensors && !ckpt_parts_told_by(parts))
		return 0;
	if (kind == CKPT_EXTRA_HEADERS && (sum.nbytes < LEAST_HEADERS || sum.nbytes < base / 2))
		return 0;
	return sum.nbytes;
}

static bool report_sizes(struct ckpt_why *w, const struct ckpt_parts *parts)
{
	uint64_t base = base_of(parts), all = 0, bytes[sizeof(sizes) / sizeof(sizes[0])];
	bool any = false;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bytes[i] = bytes_of(parts, sizes[i].kind, base);
		if (__builtin_add_overflow(all, bytes[i], &all))
			all = UINT64_MAX;
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && all >= base / 2; i++) {
		struct extra_sum sum;

		if (!bytes[i] || bytes[i] < base / 8)
			continue;
		add_up(parts, sizes[i].kind, &sum);
		report_extra(w, i, &sum);
		any = true;
	}
	return any;
}

bool ckpt_why_check_size(struct ckpt_why *w, const struct ckpt_match *match)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_parts *parts;
	bool reported;
	int rc;

	(void)match;
	if (!w->facts.model || w->facts.file.is_program)
		return false;
	rc = ckpt_parts_new(w->facts.model, &parts, &err);
	if (rc < 0) {
		if (w->failed == 0 && rc == CKPT_E_NOMEM)
			w->failed = rc;
		return false;
	}
	reported = report_sizes(w, parts);
	ckpt_parts_free(parts);
	return reported;
}
