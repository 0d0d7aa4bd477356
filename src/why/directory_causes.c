/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes of a directory: a sharded checkpoint that is incomplete or has no index, a directory that
 * is no checkpoint, and one that is sound and was given where a file is wanted.
 *
 * The order in ckpt_why_check_directory() matters: damage is reported before the advice to merge, so
 * that nobody merges an incomplete directory without knowing.
 */
#include "why/why.h"

#include "set/listing.h"

#include <ckpt/verify.h>

#include <string.h>

struct damages {
	struct ckpt_why *w;
	uint32_t count;
	const char *lines[CKPT_WHY_MOST_LINES - 2];
};

static int note_damage(void *ctx, const struct ckpt_finding *f)
{
	struct damages *s = ctx;

	if (f->kind == CKPT_FINDING_DAMAGE && s->count < CKPT_WHY_MOST_LINES - 2)
		s->lines[s->count++] = ckpt_why_print(s->w, "%s%s%s", f->file ? f->file : "",
						      f->file ? ": " : "", f->text);
	return 0;
}

static bool is_index_name(const char *name)
{
	static const char end[] = ".index.json";
	size_t len = strlen(name), end_len = sizeof(end) - 1;

	return len > end_len && !strcmp(name + len - end_len, end);
}

/* By its format, or, if it does not open, by its index, which may be what was named. */
static bool is_hugging_face(const struct ckpt_why *w)
{
	struct ckpt_listing l = { 0 };
	bool index = is_index_name(w->facts.path), metadata = false;

	if (w->facts.model)
		return w->facts.file.format_code == CKPT_FORMAT_HUGGING_FACE;
	if (ckpt_listing_read(w->facts.path, &l, NULL) == 0)
		for (size_t i = 0; i < l.count; i++) {
			metadata |= !strcmp(l.items[i].name, ".metadata");
			index |= is_index_name(l.items[i].name);
		}
	ckpt_listing_clear(&l);
	return index && !metadata;
}

static bool report_incomplete(struct ckpt_why *w)
{
	struct ckpt_verify_options options = CKPT_VERIFY_OPTIONS_INIT;
	struct damages s = { .w = w };

	options.flags = CKPT_VERIFY_QUICK;
	options.threads = w->options.threads;
	if (ckpt_verify(w->facts.path, &options, note_damage, &s, NULL, NULL) < 0 || !s.count)
		return false;
	if (ckpt_why_begin(
		    w, "dcp_incomplete", CKPT_CAUSE_CERTAIN,
		    is_hugging_face(w)
			    ? "files of the set of shards are missing or damaged: a download was interrupted, "
			      "or not all files were copied"
			    : "files of the sharded checkpoint are missing or damaged: a save was interrupted, or not "
			      "all nodes' files were copied")) {
		for (uint32_t i = 0; i < s.count && i < 4; i++)
			ckpt_why_fact(w, "%s", s.lines[i]);
		ckpt_why_words(w, "%s",
			       is_hugging_face(w)
				       ? "download or copy the missing files again"
				       : "copy the missing files from the nodes that wrote them, '.metadata' too");
		if (!is_hugging_face(w))
			ckpt_why_words(w, "or take an earlier one: 'ckpt latest DIR' finds the newest sound one");
		ckpt_why_end(w);
	}
	return true;
}

static bool report_no_index(struct ckpt_why *w)
{
	const struct ckpt_error *opening = &w->facts.opening;
	bool from_ranks = opening->reason == CKPT_REASON_DCP_OLD_INDEX,
	     mends = from_ranks || opening->reason == CKPT_REASON_DCP_REINDEX;
	char text[sizeof(opening->text)];

	if (ckpt_why_begin(
		    w, "dcp_no_index", CKPT_CAUSE_CERTAIN,
		    from_ranks
			    ? "the index (.metadata) of the sharded checkpoint is not that of its data"
			    : "the index (.metadata) of the sharded checkpoint is missing: without it nobody "
			      "knows what is in the data files")) {
		ckpt_why_fact(w, "%s", ckpt_error_text(opening, text, sizeof(text)));
		if (mends)
			ckpt_why_command(w, "ckpt reindex %s%s %s",
					 from_ranks ? "--from-ranks " : "", ckpt_why_in(w),
					 ckpt_why_out(w));
		else
			ckpt_why_words(
				w,
				"copy '.metadata' again: its name is hidden, and 'cp DIR/*' leaves it "
				"behind");
		if (!mends)
			ckpt_why_words(
				w,
				"or take an earlier one: 'ckpt latest DIR' finds the newest sound one");
		ckpt_why_end(w);
	}
	return true;
}

static bool is_checkpoint_name(const char *name)
{
	static const char *const endings[] = { ".pt",	".pth",		".bin",
					       ".ckpt", ".safetensors", ".tar" };
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (len > strlen(endings[i]) &&
		    !strcmp(name + len - strlen(endings[i]), endings[i]))
			return true;
	return false;
}

/* A directory that is no checkpoint: names files in it that may be. */
static bool report_folder(struct ckpt_why *w)
{
	struct ckpt_listing l = { 0 };
	uint32_t shown = 0;

	if (!ckpt_why_begin(w, "directory", CKPT_CAUSE_CERTAIN,
			    "it is a directory, and no sharded checkpoint that is known"))
		return true;
	ckpt_why_fact_opening(w);
	if (ckpt_listing_read(w->facts.path, &l, NULL) == 0)
		for (size_t i = 0; i < l.count && shown < 4; i++) {
			if (l.items[i].is_folder || !is_checkpoint_name(l.items[i].name))
				continue;
			shown++;
			ckpt_why_words(w, "there is a file: ckpt why %s",
				       ckpt_why_quote(w, ckpt_why_print(w, "%s/%s", w->facts.path,
									l.items[i].name)));
		}
	ckpt_listing_clear(&l);
	if (!shown)
		ckpt_why_words(w, "name the file of the checkpoint");
	ckpt_why_end(w);
	return true;
}

/* A directory around one file, config.json and the like. */
static bool report_one_file(struct ckpt_why *w)
{
	if (ckpt_why_begin(w, "sharded", CKPT_CAUSE_CERTAIN,
			   "it is a directory: torch.load takes a file, from_pretrained the "
			   "directory")) {
		ckpt_why_words(w, "there is a file: ckpt why %s",
			       ckpt_why_quote(w, ckpt_source_path(w->facts.model->doc->source)));
		ckpt_why_end(w);
	}
	return true;
}

static bool report_sharded(struct ckpt_why *w)
{
	if (!w->facts.file.file_count)
		return report_one_file(w);
	if (ckpt_why_begin(w, "sharded", CKPT_CAUSE_CERTAIN,
			   is_hugging_face(w)
				   ? "it is a set of shards: torch.load takes one file, "
				     "from_pretrained the directory"
				   : "it is a directory of shards: torch.load and from_pretrained "
				     "take one file")) {
		const char *path = ckpt_why_python_text(w, w->facts.path);

		ckpt_why_fact(w, "%s, %u data file%s", w->facts.file.format,
			      w->facts.file.file_count, w->facts.file.file_count == 1 ? "" : "s");
		ckpt_why_command(w, "ckpt merge %s %s", ckpt_why_in(w),
				 ckpt_why_merged(w, w->facts.path));
		if (w->facts.file.format_code == CKPT_FORMAT_DCP)
			ckpt_why_python(
				w,
				"torch.distributed.checkpoint.load(state_dict, checkpoint_id=%s)",
				path);
		ckpt_why_end(w);
	}
	return true;
}

static bool is_about_index(int32_t reason)
{
	return reason == CKPT_REASON_DCP_NO_INDEX || reason == CKPT_REASON_DCP_REINDEX ||
	       reason == CKPT_REASON_DCP_OLD_INDEX;
}

bool ckpt_why_check_shards(struct ckpt_why *w, const struct ckpt_match *match)
{
	(void)match;
	if (!w->facts.folder)
		return false;
	if (w->facts.model)
		return report_incomplete(w);
	if (is_about_index(w->facts.opening.reason))
		return report_no_index(w);
	if (w->facts.opening.status == CKPT_E_FORMAT)
		return report_incomplete(w);
	return report_folder(w);
}

bool ckpt_why_check_directory(struct ckpt_why *w, const struct ckpt_match *match)
{
	bool reported = ckpt_why_check_shards(w, match);

	return w->facts.folder && w->facts.model ? report_sharded(w) || reported : reported;
}
