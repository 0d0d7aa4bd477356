/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What OUT is to be (out_kind.h), and the hints where it cannot be that.
 *
 * What must stay true: nothing is decided by what is in a file called OUT, which is to be replaced.
 * A hint that names a command names one that works if it is typed as it stands: names are quoted for
 * the shell.
 */
#include "out_kind.h"

#include "json.h"
#include "pipes.h"
#include "shell_line.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum name_says {
	SAYS_NOTHING,
	SAYS_FOLDER,
	SAYS_TORCH,
	SAYS_SAFETENSORS,
	SAYS_NPZ,
	SAYS_NPY,
	SAYS_INDEX,
	SAYS_FOREIGN,
};

static const struct {
	const char *end;
	enum name_says says;
} endings[] = {
	{ ".pt", SAYS_TORCH },	       { ".pth", SAYS_TORCH },
	{ ".bin", SAYS_TORCH },	       { ".ckpt", SAYS_TORCH },
	{ ".pkl", SAYS_TORCH },	       { ".pickle", SAYS_TORCH },
	{ ".tar", SAYS_TORCH },	       { ".safetensors", SAYS_SAFETENSORS },
	{ ".npz", SAYS_NPZ },	       { ".npy", SAYS_NPY },
	{ ".index.json", SAYS_INDEX }, { ".gguf", SAYS_FOREIGN },
	{ ".onnx", SAYS_FOREIGN },     { ".h5", SAYS_FOREIGN },
	{ ".hdf5", SAYS_FOREIGN },     { ".pb", SAYS_FOREIGN },
	{ ".tflite", SAYS_FOREIGN },   { ".msgpack", SAYS_FOREIGN },
};

/* ASCII alone: what is one letter in two cases must not depend on the locale. */
static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool has_ending(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	if (len < end_len)
		return false;
	for (size_t i = 0; i < end_len; i++)
		if (lower(name[len - end_len + i]) != end[i])
			return false;
	return true;
}

static enum name_says read_name(const char *out, const char **end)
{
	size_t len = strlen(out);

	*end = "";
	if (len && out[len - 1] == '/')
		return SAYS_FOLDER;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (has_ending(out, endings[i].end)) {
			*end = endings[i].end;
			return endings[i].says;
		}
	return SAYS_NOTHING;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- IN ---- */

/* What an edit makes of IN where OUT's name says nothing. */
struct in_kind {
	bool folder;	   /* it stays a directory of files */
	bool is_directory; /* IN is one, whatever becomes of it */
	bool safetensors;  /* else pickles */
};

static struct in_kind in_kind_of(const struct ckpt_model *model)
{
	struct ckpt_file_info info = CKPT_FILE_INFO_INIT;
	struct in_kind kind = { false, false, false };

	if (!model || ckpt_file_get(model, &info) < 0)
		return kind;
	switch (info.format_code) {
	case CKPT_FORMAT_SAFETENSORS: kind.safetensors = true; break;
	case CKPT_FORMAT_DCP: kind.folder = kind.is_directory = true; break;
	case CKPT_FORMAT_HUGGING_FACE:
	case CKPT_FORMAT_DCP_SAFETENSORS: /* which become such a set */
		kind.folder = kind.is_directory = true;
		kind.safetensors = !*info.profile;
		break;
	case CKPT_FORMAT_DEEPSPEED:
	case CKPT_FORMAT_TORCH_CHECKPOINTING: kind.is_directory = true; break;
	default: break;
	}
	return kind;
}

/* ---- hints ---- */

/* NAME without its ending and slashes: the name of a folder. To be freed. */
static char *folder_for(const char *name, const char *end)
{
	size_t len = strlen(name) - strlen(end);
	char *folder;

	while (len && name[len - 1] == '/')
		len--;
	folder = malloc(strlen(name) + 2);
	if (!folder)
		no_memory();
	memcpy(folder, name, len);
	strcpy(folder + len, "/");
	if (!len || name[len - 1] == '/') /* ".pt" */
		sprintf(folder, "%s/", name);
	return folder;
}

/* 'average' is no option of 'ckpt convert': it takes two commands. */
static void hint_two_commands(const struct out_wish *w, const char *out, const char *options)
{
	bool safetensors = in_kind_of(w->model).safetensors;
	struct shell_line l = { .len = 0 }, first = { .len = 0 };
	const char *end;
	char *folder;

	read_name(w->out, &end);
	folder = folder_for(is_stream(w->out) ? "x" : w->out, end);
	folder[strlen(folder) - 1] = '\0';
	shell_add(&first, folder);
	shell_add(&first, safetensors ? ".safetensors" : ".pt");
	free(folder);
	shell_add(&l, "write");
	shell_add_path(&l, first.text);
	shell_add(&l, " first, then: ckpt convert");
	shell_add_path(&l, first.text);
	shell_add_path(&l, out);
	shell_add(&l, options);
	hint("%s", l.text);
}

/* "ckpt convert IN OUT OPTIONS", with the edits. */
static void hint_convert(const struct out_wish *w, const char *out, const char *options)
{
	struct shell_line l = { .len = 0 };

	if (w->rule == OUT_OF_EDIT && !w->steps) {
		hint_two_commands(w, out, options);
		return;
	}
	shell_add(&l, "ckpt convert");
	shell_add_path(&l, w->in);
	shell_add_path(&l, out);
	shell_add(&l, options);
	if (shell_add_steps(&l, w->steps, w->step_count, !strcmp(options, " --to torch")))
		hint("%s", l.text);
	else
		hint("'ckpt convert' takes the same edits as options, and writes the format of "
		     "OUT's name");
}

static int refuse_file_name(const struct out_wish *w, const char *end)
{
	char *folder = folder_for(w->out, end);
	struct shell_line l = { .len = 0 };

	complain("%s: this writes a folder, and that is the name of a file", w->out);
	shell_add(&l, "ckpt ");
	shell_add(&l, w->command);
	shell_add_path(&l, w->in);
	shell_add_path(&l, folder);
	if (w->options) {
		shell_add(&l, " ");
		shell_add(&l, w->options);
	}
	shell_add_steps(&l, w->steps, w->step_count, true);
	hint("%s", l.text);
	free(folder);
	return EXIT_ERROR;
}

static int refuse_folder(const struct out_wish *w, bool exists)
{
	char *folder = folder_for(w->out, "");

	complain("%s: the output is %s, wanted a file name", w->out,
		 exists ? "an existing folder" : "named like a folder");
	if (!exists)
		hint_convert(w, folder, " --shard-size 5GB");
	free(folder);
	return EXIT_ERROR;
}

static int refuse_foreign(const struct out_wish *w, const char *end)
{
	complain("%s: '%s' is the name of a format that cannot be written; wanted a name such as "
		 "model.pt, model.safetensors or model.npz",
		 w->out, end);
	if (w->rule == OUT_OF_CONVERT)
		hint("--to torch writes torch's format under that name");
	else
		hint_convert(w, w->out, " --to torch");
	return EXIT_ERROR;
}

static int refuse_npy(const struct out_wish *w)
{
	complain("%s: a file of that name holds one array, which 'ckpt cat IN NAME -o' writes; "
		 "--to npz and --to npy write all of them",
		 w->out);
	return EXIT_ERROR;
}

static int refuse_index(const struct out_wish *w)
{
	complain("%s: the index of a set is written with its files, into a directory", w->out);
	hint("--shard-size 5GB makes OUT such a directory; --to torch writes torch's format under "
	     "that name");
	return EXIT_ERROR;
}

/* ---- the answer ---- */

static int refuse_other_format(const struct out_wish *w, const struct in_kind *in)
{
	complain("%s: an edit keeps the format, and %s %s a safetensors file", w->out, w->in,
		 in->safetensors ? "is" : "is not");
	hint_convert(w, w->out, "");
	return EXIT_ERROR;
}

static int choose_for_edit(const struct out_wish *w, enum name_says says, const struct in_kind *in,
			   const char **format)
{
	if (says == SAYS_TORCH && in->safetensors && !in->is_directory)
		return refuse_other_format(w, in);
	if (says == SAYS_SAFETENSORS && !in->safetensors)
		return refuse_other_format(w, in);
	if (says == SAYS_TORCH && (in->folder || in->safetensors))
		*format = "torch";
	else if (says == SAYS_SAFETENSORS && in->folder)
		*format = "safetensors";
	return EXIT_FINE;
}

/* OUT is '-', or a pipe: it has no name that says anything. */
static int choose_stream(const struct out_wish *w, const struct in_kind *in, const char **format)
{
	if (w->rule == OUT_IS_FOLDER || (w->rule == OUT_OF_EDIT && in->folder)) {
		complain("%s: this writes a directory of files, which cannot go to a pipe", w->out);
		if (w->rule == OUT_OF_EDIT)
			hint_convert(w, w->out, in->safetensors ? " --to safetensors" : "");
		return EXIT_ERROR;
	}
	if (w->rule != OUT_OF_EDIT && !w->to)
		*format = "torch";
	return open_stream(w->out);
}

bool out_becomes_folder(const struct out_wish *w)
{
	const char *end;

	if (!w->keeps_folder || !*w->out || is_stream(w->out) || !is_folder(w->in) || in_kind_of(w->model).is_directory)
		return false;
	return read_name(w->out, &end) <= SAYS_FOLDER || is_folder(w->out);
}

int choose_out(const struct out_wish *w, const char **format)
{
	const char *end;
	enum name_says says = read_name(w->out, &end);
	struct in_kind in = in_kind_of(w->model);
	bool exists = is_folder(w->out), may_be_folder = w->rule == OUT_OF_EDIT && (in.folder || out_becomes_folder(w));

	*format = w->to;
	if (!*w->out) {
		complain("'' is no name of a file");
		return EXIT_ERROR;
	}
	if (is_stream(w->out))
		return choose_stream(w, &in, format);
	if (w->rule == OUT_IS_FOLDER)
		return says > SAYS_FOLDER && !exists ? refuse_file_name(w, end) : EXIT_FINE;
	if (says == SAYS_FOLDER || exists)
		return may_be_folder ? EXIT_FINE : refuse_folder(w, exists);
	if (w->to)
		return EXIT_FINE;
	switch (says) {
	case SAYS_FOREIGN: return refuse_foreign(w, end);
	case SAYS_INDEX:
	case SAYS_NPY:
	case SAYS_NPZ:
		if (w->rule == OUT_OF_CONVERT && says == SAYS_NPZ) {
			*format = "npz";
			return EXIT_FINE;
		}
		if (w->rule == OUT_OF_CONVERT)
			return says == SAYS_NPY ? refuse_npy(w) : refuse_index(w);
		complain("%s: this writes no such file", w->out);
		if (says == SAYS_NPZ) {
			hint_convert(w, w->out, "");
		} else if (says == SAYS_INDEX) {
			char *folder = folder_for(w->out, end);

			hint_convert(w, folder, " --shard-size 5GB");
			free(folder);
		}
		return EXIT_ERROR;
	default: break;
	}
	if (w->rule == OUT_OF_EDIT)
		return choose_for_edit(w, says, &in, format);
	*format = says == SAYS_SAFETENSORS ? "safetensors" : "torch";
	return EXIT_FINE;
}
