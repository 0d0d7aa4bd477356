/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causes of a single file: something else lies where a checkpoint should be (a pointer of Git LFS,
 * a web page, a packed file), torch.save did not write it, or torch.load is not what loads it.
 *
 * What the file is was decided in facts.c. A command that is advised has to work, so what can be
 * tried without writing is tried (can_be_converted()).
 */
#include "why/why.h"

#include "model/state_dict.h"

#include <ckpt/container.h>
#include <ckpt/save.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- something else in the place of a checkpoint ---- */

/* The folder that the file lies in. */
static const char *folder_of(struct ckpt_why *w)
{
	const char *path = w->facts.path, *slash = strrchr(path, '/');

	if (!slash)
		return ".";
	return ckpt_why_print(w, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static const char *base_of(struct ckpt_why *w)
{
	const char *slash = strrchr(w->facts.path, '/');

	return ckpt_why_quote(w, slash ? slash + 1 : w->facts.path);
}

static bool report_pointer_file(struct ckpt_why *w)
{
	bool lfs = w->facts.identity.nature == CKPT_NATURE_LFS;

	if (!ckpt_why_begin(
		    w, lfs ? "lfs_pointer" : "annex_pointer", CKPT_CAUSE_CERTAIN,
		    "it is a text of a few lines that stands for the model: the repository was "
		    "cloned without %s, or the file was not fetched",
		    lfs ? "Git LFS" : "git-annex"))
		return true;
	ckpt_why_fact_opening(w);
	if (lfs)
		ckpt_why_command(w, "git -C %s lfs pull --include %s",
				 ckpt_why_quote(w, folder_of(w)), base_of(w));
	else
		ckpt_why_command(w, "git -C %s annex get %s", ckpt_why_quote(w, folder_of(w)),
				 base_of(w));
	ckpt_why_end(w);
	return true;
}

static bool report_server_answer(struct ckpt_why *w)
{
	if (ckpt_why_begin(
		    w, "web_page", CKPT_CAUSE_CERTAIN,
		    "it is what a server answered in the place of the model: the address is wrong, "
		    "needs a login or a token, or was a page with a download link")) {
		ckpt_why_fact_opening(w);
		ckpt_why_words(w,
			       "download it again, from the address of the file itself ('curl -fL' "
			       "fails where this file was made), with a token if it is private");
		ckpt_why_end(w);
	}
	return true;
}

static bool report_packed(struct ckpt_why *w)
{
	static const char *const endings[] = { ".gz", ".bz2", ".xz", ".zst", ".lz4" };
	const char *unpack = w->facts.identity.unpack, *ending = "";

	if (!ckpt_why_begin(w, "compressed", CKPT_CAUSE_CERTAIN,
			    "the file is packed, and torch.load unpacks nothing"))
		return true;
	ckpt_why_fact_opening(w);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (strlen(w->facts.path) > strlen(endings[i]) &&
		    !strcmp(w->facts.path + strlen(w->facts.path) - strlen(endings[i]), endings[i]))
			ending = endings[i];
	if (unpack)
		ckpt_why_command(w, "%s <%s >%s", unpack, ckpt_why_in(w),
				 ckpt_why_out_without(w, ending));
	else
		ckpt_why_words(w, "unpack it");
	ckpt_why_end(w);
	return true;
}

static bool report_tar(struct ckpt_why *w)
{
	if (ckpt_why_begin(
		    w, "tar", CKPT_CAUSE_CERTAIN,
		    "it is a tar archive with files in it, not a checkpoint; torch calls that a broken "
		    "file of its own oldest form")) {
		ckpt_why_command(w, "tar -xvf %s -C %s", ckpt_why_in(w),
				 ckpt_why_quote(w, folder_of(w)));
		ckpt_why_end(w);
	}
	return true;
}

static bool report_safetensors(struct ckpt_why *w)
{
	static const char end[] = ".safetensors";
	size_t len = strlen(w->facts.path), end_len = sizeof(end) - 1;
	bool named_so = len > end_len && !strcmp(w->facts.path + len - end_len, end);

	if (ckpt_why_begin(w, "safetensors", CKPT_CAUSE_CERTAIN,
			   "it is a safetensors file%s: torch.load reads pickles",
			   named_so ? "" : ", whatever its name says")) {
		ckpt_why_python(w, "safetensors.torch.load_file(%s)",
				ckpt_why_python_text(w, w->facts.path));
		ckpt_why_words(w, "'ckpt convert %s OUT.pt' makes a file for torch.load of it",
			       ckpt_why_in(w));
		if (!named_so)
			ckpt_why_words(w, "where a name decides how it is loaded, let it end in .safetensors");
		ckpt_why_end(w);
	}
	return true;
}

static bool report_pickle(struct ckpt_why *w)
{
	if (ckpt_why_check_danger(w, NULL))
		return true;
	if (ckpt_why_begin(
		    w, "bare_pickle", CKPT_CAUSE_CERTAIN,
		    "it was written by pickle.dump, joblib or the like, not by torch.save: torch.load "
		    "finds no mark of its own at the beginning")) {
		ckpt_why_fact_opening(w);
		ckpt_why_words(w, "'ckpt dis %s' shows what is in it", ckpt_why_in(w));
		ckpt_why_words(
			w, "pickle.load reads it, and runs whatever is in it: only if you trust "
			   "where it comes from");
		ckpt_why_end(w);
	}
	return true;
}

/* One file of a sharded checkpoint: the directory is what loads. */
static bool report_part_of_dcp(struct ckpt_why *w)
{
	const char *folder = folder_of(w);

	if (ckpt_why_begin(
		    w, "part_of_directory", CKPT_CAUSE_CERTAIN,
		    "it is one file of a sharded checkpoint (DCP): what loads is the directory, and "
		    "torch.load reads none")) {
		ckpt_why_command(w, "ckpt merge %s %s", ckpt_why_quote(w, folder),
				 ckpt_why_merged(w, folder));
		ckpt_why_python(w,
				"torch.distributed.checkpoint.load(state_dict, checkpoint_id=%s)",
				ckpt_why_python_text(w, folder));
		ckpt_why_end(w);
	}
	return true;
}

/* ---- one rank's file of DeepSpeed ---- */

bool ckpt_why_is_zero_part(struct ckpt_why *w)
{
	const struct ckpt_model *model = w->facts.model;
	const struct ckpt_value *root = model ? ckpt_model_now(model, model->root) : NULL;
	uint64_t count;

	if (!model || w->facts.folder || !ckpt_mapping_find(model, root, "param_shapes") ||
	    !ckpt_mapping_find(model, root, "module"))
		return false;
	count = ckpt_tensor_count(model);
	for (uint64_t i = 0; i < count; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(model, i, &info) == 0 && !strncmp(info.name, "module.", 7) &&
		    info.ndim == 1 && info.shape[0] == 0)
			return true;
	}
	return false;
}

bool ckpt_why_check_zero_part(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *folder;

	(void)match;
	if (!w->facts.path || !ckpt_why_is_zero_part(w))
		return false;
	folder = folder_of(w);
	if (ckpt_why_begin(w, "partitioned", CKPT_CAUSE_CERTAIN,
			   "it is the file of one rank of a DeepSpeed ZeRO-3 directory: the weights in it are empty, and "
			   "each rank's *_optim_states.pt has a part of them")) {
		ckpt_why_fact(w, "tensors of 'module' have the shape [0]; 'param_shapes' has those of the weights");
		ckpt_why_command(w, "ckpt merge %s %s", ckpt_why_quote(w, folder), ckpt_why_merged(w, folder));
		ckpt_why_end(w);
	}
	return true;
}

/* ---- zip archives that torch did not write ---- */

struct first_inner {
	const char *name;
	uint32_t count;
	struct ckpt_why *w;
};

static int note_inner(void *ctx, const struct ckpt_inner *first_inner)
{
	struct first_inner *in = ctx;

	if (first_inner->kind && !in->count++)
		in->name = ckpt_why_print(in->w, "%s::%s", in->w->facts.path, first_inner->name);
	return 0;
}

static bool report_other_zip(struct ckpt_why *w)
{
	struct first_inner in = { NULL, 0, w };

	ckpt_each_inner(w->facts.path, note_inner, &in, NULL);
	if (!ckpt_why_begin(w, "other_zip", CKPT_CAUSE_CERTAIN,
			    in.name ? "it is a zip archive with checkpoints in it, not one itself"
				    : "it is a zip archive, but none that torch.save wrote"))
		return true;
	ckpt_why_fact_opening(w);
	if (in.name)
		ckpt_why_command(w, "ckpt convert --profile same %s %s", ckpt_why_quote(w, in.name),
				 ckpt_why_out(w));
	ckpt_why_words(w, "'unzip -l %s' lists what is in it", ckpt_why_in(w));
	ckpt_why_end(w);
	return true;
}

static bool report_empty(struct ckpt_why *w)
{
	if (ckpt_why_begin(
		    w, "empty", CKPT_CAUSE_CERTAIN,
		    w->facts.identity.nature == CKPT_NATURE_EMPTY
			    ? "the file is empty: a save or a download made it and wrote nothing"
			    : "the file is nothing but zeros: its space was reserved, and the data never "
			      "came")) {
		ckpt_why_words(
			w,
			"%s; an earlier checkpoint: 'ckpt latest DIR' finds the newest sound one",
			ckpt_why_copy_again);
		ckpt_why_end(w);
	}
	return true;
}

static bool report_other_format(struct ckpt_why *w)
{
	if (ckpt_why_begin(w, "other_format", CKPT_CAUSE_CERTAIN,
			   "it is no file that torch.save wrote")) {
		ckpt_why_fact_opening(w);
		ckpt_why_words(w, "load it with the package that made it");
		ckpt_why_end(w);
	}
	return true;
}

/* A config, notes, a list of names: what lies beside the weights. */
static bool report_text(struct ckpt_why *w)
{
	if (ckpt_why_begin(w, "text_file", CKPT_CAUSE_CERTAIN,
			   "it is a text, and not the file with the weights")) {
		ckpt_why_fact_opening(w);
		ckpt_why_words(w,
			       "give the file with the weights, which lies beside it or has to be "
			       "downloaded, too");
		ckpt_why_end(w);
	}
	return true;
}

static bool report_permission(struct ckpt_why *w)
{
	if (ckpt_why_begin(w, "permission", CKPT_CAUSE_CERTAIN,
			   "the file is there, and you are not allowed to read it")) {
		ckpt_why_words(w, "'ls -l %s' says whose it is; its owner can 'chmod a+r' it",
			       ckpt_why_in(w));
		ckpt_why_end(w);
	}
	return true;
}

/* What is not a checkpoint. */
static bool report_nature(struct ckpt_why *w)
{
	const struct ckpt_facts *f = &w->facts;

	switch (f->identity.nature) {
	case CKPT_NATURE_EMPTY:
	case CKPT_NATURE_ZEROS: return report_empty(w);
	case CKPT_NATURE_LFS:
	case CKPT_NATURE_ANNEX: return report_pointer_file(w);
	case CKPT_NATURE_MARKUP: return report_server_answer(w);
	case CKPT_NATURE_JSON:
	case CKPT_NATURE_TEXT: return f->is_server_error ? report_server_answer(w) : report_text(w);
	case CKPT_NATURE_PACKED: return report_packed(w);
	case CKPT_NATURE_TAR: return f->opening.status == CKPT_E_UNSUPPORTED && report_tar(w);
	case CKPT_NATURE_SAFETENSORS:
		return f->opening.status != CKPT_E_FORMAT && report_safetensors(w);
	case CKPT_NATURE_PICKLE: return f->opening.status == CKPT_E_UNSUPPORTED && report_pickle(w);
	case CKPT_NATURE_DCP_INDEX: return report_part_of_dcp(w);
	case CKPT_NATURE_OTHER: return report_other_format(w);
	default: return false;
	}
}

bool ckpt_why_check_file(struct ckpt_why *w, const struct ckpt_match *match)
{
	const struct ckpt_facts *f = &w->facts;

	if (!f->path)
		return false;
	if (f->folder)
		return ckpt_why_check_shards(w, match);
	if (f->model && f->identity.nature == CKPT_NATURE_SAFETENSORS)
		return report_safetensors(w);
	if (f->model)
		return ckpt_why_check_damage(w, match);
	if (f->opening.status == CKPT_E_IO)
		return access(f->path, F_OK) == 0 && access(f->path, R_OK) != 0 &&
		       report_permission(w);
	if (report_nature(w))
		return true;
	if (f->opening.reason == CKPT_REASON_DCP_DATA_FILE)
		return report_part_of_dcp(w);
	if (ckpt_why_check_damage(w, match))
		return true;
	return f->identity.nature == CKPT_NATURE_ZIP ? report_other_zip(w) : report_other_format(w);
}

/* ---- programs ---- */

static const struct {
	enum ckpt_format_code format;
	const char *id, *text, *load;
} programs[] = {
	{ CKPT_FORMAT_TORCH_SCRIPT, "torchscript",
	  "it is a TorchScript program (torch.jit.save), not a dict of weights: torch.load with "
	  "weights_only=True refuses it, and without gives a module",
	  "torch.jit.load(%s)" },
	{ CKPT_FORMAT_TORCH_PACKAGE, "torch_package",
	  "it is an archive of torch.package, which torch.load does not read",
	  "torch.package.PackageImporter(%s)" },
	{ CKPT_FORMAT_TORCH_EXPORT, "torch_export",
	  "it is a program of torch.export (.pt2), which torch.load does not read",
	  "torch.export.load(%s)" },
	{ CKPT_FORMAT_TORCH_MOBILE, "torch_mobile",
	  "it is a model for phones (FlatBuffers), which torch.load does not read",
	  "torch.jit.load(%s)" },
};

/* A command that is advised has to work: what it would write is tried without writing it. */
static bool can_be_converted(struct ckpt_why *w)
{
	struct ckpt_save_options o = CKPT_SAVE_OPTIONS_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	char text[sizeof(err.text)];

	if (!ckpt_tensor_count(w->facts.model)) {
		ckpt_why_fact(w, "it holds no tensors that could be written as a state dict");
		return false;
	}
	if (w->facts.file.format_code != CKPT_FORMAT_TORCH_PACKAGE)
		return true; /* 'ckpt convert' takes the state dict */
	o.flags = CKPT_SAVE_DRY_RUN | CKPT_SAVE_CANONICAL | CKPT_SAVE_REPLACE;
	o.format = "torch";
	o.threads = w->options.threads;
	if (ckpt_save(w->facts.model, ckpt_why_out(w), &o, NULL, &err) == 0)
		return true;
	ckpt_why_fact(w, "it %s", ckpt_error_text(&err, text, sizeof(text)));
	return false;
}

bool ckpt_why_check_program(struct ckpt_why *w, const struct ckpt_match *match)
{
	(void)match;
	if (!w->facts.model)
		return false;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (w->facts.file.format_code != programs[i].format)
			continue;
		if (ckpt_why_begin(w, programs[i].id, CKPT_CAUSE_CERTAIN, "%s", programs[i].text)) {
			const char *path = ckpt_why_python_text(w, w->facts.path);

			if (can_be_converted(w))
				ckpt_why_command(w, "ckpt convert %s %s", ckpt_why_in(w),
						 ckpt_why_out(w));
			ckpt_why_python(w, "%.*s%s)", (int)strcspn(programs[i].load, "%"),
					programs[i].load, path);
			ckpt_why_end(w);
		}
		return true;
	}
	return false;
}
