/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of a DeepSpeed checkpoint by their names: the folder that `latest` names, or
 * the directory itself, and in it which file each rank has of model and optimizer states. Source:
 * runtime/engine.py (_get_ckpt_name, _get_zero_ckpt_name) of DeepSpeed 0.3.16 to 0.19.8.
 *
 * Kinds of DeepSpeed checkpoints that cannot be put together are refused here, by name. So is
 * every set in which a rank is missing or has two files: nothing says which of two runs is valid.
 * A text in `latest` must not lead out of the directory.
 */
#include "set/zero/zero.h"

#include "base/ascii.h"
#include "base/c_locale.h"
#include "base/paths.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 65536, MOST_TAG = 1024, SHOWN = 120 };
#define STEPS "global_step[0-9]*"

void ckpt_zero_names_clear(struct ckpt_zero_names *n)
{
	for (uint32_t i = 0; i < n->model_count; i++)
		free(n->model_states[i]);
	for (uint32_t i = 0; i < n->optim_count; i++)
		free(n->optim_states[i]);
	free(n->model_states);
	free(n->optim_states);
	free(n->folder);
	*n = (struct ckpt_zero_names){ 0 };
}

/* ---- the names of files ---- */

/*
 * A decimal number at *AT, which is moved behind it; -1: there is none, or a larger one than of any
 * rank.
 */
static int64_t parse_number(const char **at)
{
	int64_t number = 0;

	if (!ckpt_is_digit((unsigned char)**at))
		return -1;
	for (; ckpt_is_digit((unsigned char)**at); (*at)++) {
		number = number * 10 + (**at - '0');
		if (number >= MOST_RANKS)
			return -1;
	}
	return number;
}

static bool parse_text(const char **at, const char *text)
{
	size_t len = strlen(text);

	if (strncmp(*at, text, len) != 0)
		return false;
	*at += len;
	return true;
}

enum kind { OTHER, MODEL, MODEL_OF_RANK, OPTIM };

struct parsed {
	enum kind kind;
	uint32_t rank, mp_rank;
};

/* [bf16_|fp16_][zero_pp_rank_D_]mp_rank_MM_{model,optim}_states.pt */
static struct parsed parse_name(const char *name)
{
	struct parsed p = { .kind = OTHER };
	bool typed = parse_text(&name, "bf16_") || parse_text(&name, "fp16_");
	bool ranked = parse_text(&name, "zero_pp_rank_");
	int64_t rank = ranked ? parse_number(&name) : 0, mp_rank;

	if (rank < 0 || (ranked && !parse_text(&name, "_")) || !parse_text(&name, "mp_rank_"))
		return p;
	mp_rank = parse_number(&name);
	if (mp_rank < 0)
		return p;
	p.rank = (uint32_t)rank;
	p.mp_rank = (uint32_t)mp_rank;
	if (ranked && !strcmp(name, "_optim_states.pt"))
		p.kind = OPTIM;
	else if (!typed && !strcmp(name, "_model_states.pt"))
		p.kind = ranked ? MODEL_OF_RANK : MODEL;
	return p;
}

static bool has_deepspeed_files(const struct ckpt_listing *l)
{
	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->items[i].name;

		if (!l->items[i].is_folder &&
		    (parse_name(name).kind != OTHER ||
		     ckpt_glob_matches("layer_*-model_states.pt", name, 0)))
			return true;
	}
	return false;
}

/* ---- kinds that cannot be put together ---- */

static const struct {
	const char *pattern, *text;
} refused[] = {
	{ "expp_rank_*_optim_states.pt",
	  "is a DeepSpeed checkpoint with experts (MoE), whose weights are spread over groups of "
	  "ranks; that cannot be read" },
	{ "layer_*_expert_*_model_states.pt",
	  "is a DeepSpeed checkpoint with experts (MoE), whose weights are spread over groups of "
	  "ranks; that cannot be read" },
	{ "layer_*-model_states.pt",
	  "is a DeepSpeed checkpoint of a pipeline, whose layers have a file each; its files are "
	  "torch.save files that can be read" },
};

static int refuse_kinds(const struct ckpt_listing *l, struct ckpt_error *err)
{
	const struct ckpt_listed *zero = ckpt_listing_find(l, "zero");

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (ckpt_listing_count(l, refused[i].pattern, NULL))
			return ckpt_fail(err, CKPT_E_UNSUPPORTED, "%s", refused[i].text);
	if (zero && zero->is_folder)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a universal checkpoint of DeepSpeed, which cannot be read; the "
			"files in its folder 'zero' can");
	for (size_t i = 0; i < l->count; i++) {
		struct parsed p = parse_name(l->items[i].name);

		if (p.kind != OTHER && p.mp_rank)
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"is a DeepSpeed checkpoint of a model that is cut by tensor "
				"parallelism ('%s'): how its parts fit together is not "
				"in the files",
				l->items[i].name);
	}
	return 0;
}

/* ---- which file each rank has ---- */

static int set_file(char ***names, uint32_t *count, uint32_t rank, const char *name,
		    struct ckpt_error *err)
{
	if (rank >= *count) {
		char **grown = realloc(*names, (rank + (size_t)1) * sizeof(*grown));

		if (!grown)
			return ckpt_fail_nomem(err);
		while (*count <= rank)
			grown[(*count)++] = NULL;
		*names = grown;
	}
	if ((*names)[rank])
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has '%s' and '%s', of two runs: which is valid is not said",
				 (*names)[rank], name);
	(*names)[rank] = strdup(name);
	return (*names)[rank] ? 0 : ckpt_fail_nomem(err);
}

static int set_files(struct ckpt_zero_names *n, const struct ckpt_listing *l,
		     struct ckpt_error *err)
{
	bool whole = false;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->count; i++) {
		const char *name = l->items[i].name;
		struct parsed p = parse_name(name);

		if (l->items[i].is_folder || p.kind == OTHER)
			continue;
		whole |= p.kind == MODEL;
		n->is_stage3 |= p.kind == MODEL_OF_RANK;
		if (whole && n->is_stage3)
			return ckpt_fail(
				err, CKPT_E_FORMAT,
				"has 'mp_rank_00_model_states.pt' and '%s': model states of "
				"ZeRO stage 3 and of another one",
				name);
		if (p.kind == OPTIM)
			rc = set_file(&n->optim_states, &n->optim_count, p.rank, name, err);
		else
			rc = set_file(&n->model_states, &n->model_count, p.rank, name, err);
	}
	return rc;
}

static int check_ranks(char *const *names, uint32_t count, const char *what, struct ckpt_error *err)
{
	uint32_t missing = count, found = 0;

	for (uint32_t i = count; i-- > 0;) {
		found += names[i] != NULL;
		if (!names[i])
			missing = i;
	}
	if (missing < count)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "holds %s of %" PRIu32 " of at least %" PRIu32
				 " ranks: that of rank %" PRIu32 " is missing",
				 what, found, count, missing);
	return 0;
}

static int check_names(const struct ckpt_zero_names *n, struct ckpt_error *err)
{
	int rc = check_ranks(n->optim_states, n->optim_count, "the optimizer's states", err);

	if (rc == 0)
		rc = check_ranks(n->model_states, n->model_count, "the model states", err);
	if (rc == 0 && !n->model_count)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has the optimizer's states, but no *_model_states.pt, which has "
				 "the names and shapes");
	if (rc == 0 && n->is_stage3 && !n->optim_count)
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"has the model states of ZeRO stage 3, but no *_optim_states.pt, which "
			"have the weights");
	if (rc == 0 && n->is_stage3 && n->model_count != n->optim_count)
		return ckpt_fail(err, CKPT_E_FORMAT,
				 "has the model states of %" PRIu32
				 " ranks and the optimizer's states of %" PRIu32,
				 n->model_count, n->optim_count);
	return rc;
}

/* ---- which folder ---- */

static bool leads_out(const char *tag)
{
	if (*tag == '/')
		return true;
	for (;;) {
		size_t len = strcspn(tag, "/");

		if (len == 2 && !memcmp(tag, "..", 2))
			return true;
		if (!tag[len])
			return false;
		tag += len + 1;
	}
}

/* The last folder of the names like PATTERN, or NULL. */
static const char *last_folder(const struct ckpt_listing *l, const char *pattern)
{
	const char *last = NULL;

	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].is_folder && ckpt_glob_matches(pattern, l->items[i].name, 0))
			last = l->items[i].name;
	return last;
}

/* The text of the file `latest`, without the white space around it. 1: there is one. */
static int read_latest(const char *path, char tag[MOST_TAG + 1], struct ckpt_error *err)
{
	struct ckpt_source *source;
	char name[4096], *start = tag;
	size_t len;
	int rc;

	if (snprintf(name, sizeof(name), "%s/latest", path) >= (int)sizeof(name) ||
	    ckpt_set_is_folder(name) || ckpt_source_open(name, &source, NULL) < 0)
		return 0;
	len = ckpt_source_size(source) < MOST_TAG ? (size_t)ckpt_source_size(source) : MOST_TAG;
	rc = ckpt_source_read(source, 0, tag, len, err);
	ckpt_source_unref(source);
	if (rc < 0)
		return ckpt_error_at(err, rc, name, NULL, CKPT_NO_OFFSET);
	tag[len] = '\0';
	len = strlen(tag);
	while (len && ckpt_is_space((unsigned char)tag[len - 1]))
		tag[--len] = '\0';
	while (ckpt_is_space((unsigned char)*start))
		start++;
	memmove(tag, start, strlen(start) + 1);
	return *tag != '\0';
}

char *ckpt_zero_latest(const char *path)
{
	char tag[MOST_TAG + 1];

	return read_latest(path, tag, NULL) > 0 && !leads_out(tag) ? strdup(tag) : NULL;
}

bool ckpt_zero_is_folder(const char *path, const char *tag)
{
	struct ckpt_listing l = { 0 };
	char *folder;
	bool is_one = false;

	if (ckpt_path_join(path, tag, &folder, NULL) < 0)
		return false;
	if (ckpt_set_is_folder(folder) && ckpt_listing_read(folder, &l, NULL) == 0)
		is_one = has_deepspeed_files(&l);
	ckpt_listing_clear(&l);
	free(folder);
	return is_one;
}

static int fail_latest(const struct ckpt_listing *l, const char *tag, struct ckpt_error *err)
{
	char shown[SHOWN];

	ckpt_escape(shown, sizeof(shown), tag, strlen(tag));
	if (leads_out(tag))
		return ckpt_fail(
			err, CKPT_E_FORMAT,
			"its file 'latest' names '%s', which lies outside of the directory", shown);
	/* others write a file of this name, too */
	if (!ckpt_listing_find(l, "zero_to_fp32.py") && !last_folder(l, STEPS))
		return 0;
	return ckpt_fail(err, CKPT_E_FORMAT,
			 "its file 'latest' names '%s', where there are no files of DeepSpeed",
			 shown);
}

/* Folders of DeepSpeed lie in it, and nothing says which one counts. */
static int fail_unnamed(const struct ckpt_listing *l, struct ckpt_error *err)
{
	const char *folder = last_folder(l, STEPS);
	char shown[SHOWN];

	if (ckpt_listing_find(l, "latest_universal"))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "holds a universal checkpoint of DeepSpeed, which cannot be read");
	if (!folder || !ckpt_listing_find(l, "zero_to_fp32.py"))
		return 0;
	return ckpt_fail(
		err, CKPT_E_FORMAT,
		"has no file 'latest', which names the folder of DeepSpeed's files; name one "
		"of them, such as '%s'",
		ckpt_escape(shown, sizeof(shown), folder, strlen(folder)));
}

static int read_folder(char *folder, const struct ckpt_listing *l, struct ckpt_zero_names *names,
		       struct ckpt_error *err)
{
	int rc = refuse_kinds(l, err);

	names->folder = folder;
	if (rc == 0)
		rc = set_files(names, l, err);
	if (rc == 0)
		rc = check_names(names, err);
	if (rc < 0) {
		ckpt_error_at(err, rc, folder, NULL, CKPT_NO_OFFSET);
		ckpt_zero_names_clear(names);
	}
	return rc < 0 ? rc : 1;
}

static int find_latest(const char *path, const struct ckpt_listing *l,
		       struct ckpt_zero_names *names, struct ckpt_error *err)
{
	char tag[MOST_TAG + 1], *folder;
	struct ckpt_listing inside;
	int rc = read_latest(path, tag, err);

	if (rc <= 0)
		return rc < 0 ? rc : fail_unnamed(l, err);
	if (leads_out(tag) || !ckpt_zero_is_folder(path, tag))
		return fail_latest(l, tag, err);
	if (ckpt_path_join(path, tag, &folder, err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_listing_read(folder, &inside, err);
	if (rc == 0)
		rc = read_folder(folder, &inside, names, err);
	else
		free(folder);
	ckpt_listing_clear(&inside);
	return rc;
}

int ckpt_zero_find(const char *path, const struct ckpt_listing *l, struct ckpt_zero_names *names,
		   struct ckpt_error *err)
{
	char *folder;

	*names = (struct ckpt_zero_names){ 0 };
	if (!has_deepspeed_files(l))
		return find_latest(path, l, names, err);
	folder = strdup(path);
	return folder ? read_folder(folder, l, names, err) : ckpt_fail_nomem(err);
}
