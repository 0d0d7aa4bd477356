/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kind of set a directory is, and opening it: the one place that knows all kinds. It goes
 * by names alone, in a fixed order: a `.metadata` (DCP), traces of an interrupted DCP save,
 * `metadata.pkl` (torch_checkpointing), DeepSpeed, files of ranks, Hugging Face.
 *
 * The order matters where a directory has the files of several kinds: an index comes before files
 * that only look like parts, and what is left of an interrupted save must be reported, never
 * opened as something else. What cannot be opened gets a reason that says what can be done.
 */
#include "set/set.h"

#include "base/c_locale.h"
#include "base/paths.h"
#include "base/text.h"
#include "set/dcp/dcp.h"
#include "set/hf/hf.h"
#include "set/hf/out.h"
#include "set/listing.h"
#include "set/ranks/ranks.h"
#include "set/tc/tc.h"
#include "set/zero/zero.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a directory without an index ---- */

/* Does a pickle end as one does? A torn one lacks its STOP. */
static bool is_whole_pickle(const char *folder, const struct ckpt_listed *file)
{
	struct ckpt_source *source = NULL;
	char path[4096];
	uint8_t last = 0;

	if (snprintf(path, sizeof(path), "%s/%s", folder, file->name) < (int)sizeof(path) &&
	    file->size && ckpt_source_open(path, &source, NULL) == 0)
		ckpt_source_read(source, ckpt_source_size(source) - 1, &last, 1, NULL);
	ckpt_source_unref(source);
	return last == '.';
}

static int fail_no_index(const char *folder, const struct ckpt_listing *l, size_t data_files,
			 struct ckpt_error *err)
{
	const struct ckpt_listed *temporary = ckpt_listing_find(l, ".metadata.tmp"), *first;
	size_t local = ckpt_listing_count(l, "__[0-9]*.metadata", &first);

	if (local)
		return ckpt_error_because(
			err,
			ckpt_fail(
				err, CKPT_E_FORMAT,
				"has no .metadata, but %zu indexes of single ranks (%s ...), as a save with "
				"use_collectives=False leaves them; 'ckpt reindex' makes one index of them",
				local, first->name),
			CKPT_REASON_DCP_REINDEX);
	if (temporary && is_whole_pickle(folder, temporary))
		return ckpt_error_because(
			err,
			ckpt_fail(
				err, CKPT_E_FORMAT,
				"has no .metadata, but a whole .metadata.tmp: the save was interrupted at "
				"its last step; 'ckpt reindex' completes it"),
			CKPT_REASON_DCP_REINDEX);
	if (temporary)
		ckpt_fail(err, CKPT_E_FORMAT,
			  "has no .metadata, and a .metadata.tmp that was cut: the save was "
			  "interrupted, and which tensors the %zu data files hold is lost",
			  data_files);
	else
		ckpt_fail(
			err, CKPT_E_FORMAT,
			"has %zu data files (.distcp), but no .metadata: the save was interrupted, or the "
			"index was left behind when the files were copied, for its name is hidden",
			data_files);
	return ckpt_error_because(err, CKPT_E_FORMAT, CKPT_REASON_DCP_NO_INDEX);
}

/* What else people keep in directories, with what can be done. */
static const struct {
	const char *pattern, *text;
} others[] = {
	{ "[0-9]*.metadata", "is a checkpoint of PaddlePaddle, not of PyTorch" },
	{ ".snapshot_metadata", "is a torchsnapshot directory, which cannot be read" },
};

static int fail_other(const struct ckpt_listing *l, struct ckpt_error *err)
{
	const struct ckpt_listed *first;
	char shown[120];
	size_t count;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ckpt_listing_count(l, others[i].pattern, NULL))
			return ckpt_fail(err, CKPT_E_UNSUPPORTED, "%s", others[i].text);
	count = ckpt_listing_count(l, "*.pt", &first);
	if (!count)
		count = ckpt_listing_count(l, "*.[pcb][tki][hpn]*", &first);
	if (count)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"is a directory, but no sharded checkpoint: it has no .metadata; name a file "
			"in it, such as '%s'",
			ckpt_escape(shown, sizeof(shown), first->name, strlen(first->name)));
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "is a directory, but no sharded checkpoint: it has no .metadata");
}

static int open_dcp(const char *path, struct ckpt_model **out, struct ckpt_error *err)
{
	char index_path[4096];
	struct ckpt_source *index;
	int rc;

	if (snprintf(index_path, sizeof(index_path), "%s/.metadata", path) >=
	    (int)sizeof(index_path))
		return ckpt_fail(err, CKPT_E_ARG, "the path is too long");
	rc = ckpt_source_open(index_path, &index, err);
	if (rc < 0)
		return rc;
	rc = ckpt_dcp_open_index(path, index, out, err);
	ckpt_source_unref(index);
	return rc;
}

static bool is_stale(const struct ckpt_listing *l, const struct ckpt_listed *index)
{
	for (size_t i = 0; i < l->count; i++)
		if (ckpt_glob_matches("__[0-9]*.metadata", l->items[i].name, 0) &&
		    ckpt_listed_newer(&l->items[i].mtime, &index->mtime))
			return true;
	return false;
}

/* Files of ranks or of parts of a model, whose names tell what they are. */
static int open_by_names(const char *path, const struct ckpt_listing *l, struct ckpt_model **out,
			 struct ckpt_error *err)
{
	struct ckpt_zero_names names;
	struct ckpt_hf_found found;
	char stem[256];
	int rc = ckpt_zero_find(path, l, &names, err);

	if (rc < 0)
		return rc;
	if (rc)
		return ckpt_zero_open(path, &names, out, err);
	if (ckpt_ranks_find(l, stem, sizeof(stem)))
		return ckpt_ranks_open(path, l, stem, out, err);
	if (ckpt_hf_find(l, &found))
		return ckpt_hf_open(path, l, &found, out, err);
	return fail_other(l, err);
}

static int open_listed(const char *path, const struct ckpt_listing *l, struct ckpt_model **out,
		       struct ckpt_error *err)
{
	size_t data_files = ckpt_listing_count(l, "*.distcp", NULL);

	const struct ckpt_listed *index = ckpt_listing_find(l, ".metadata");

	if (index && is_stale(l, index))
		return ckpt_error_because(
			err,
			ckpt_fail(
				err, CKPT_E_FORMAT,
				"has a .metadata that is older than the indexes of single ranks beside it: "
				"a later save with use_collectives=False wrote new data, which torch would "
				"read through the old index; 'ckpt reindex --from-ranks' makes a new one"),
			CKPT_REASON_DCP_OLD_INDEX);
	if (index)
		return open_dcp(path, out, err);
	if (ckpt_listing_count(l, "[0-9]*.metadata", NULL))
		return fail_other(l, err); /* PaddlePaddle uses the suffix, too */
	if (data_files || ckpt_listing_find(l, ".metadata.tmp") ||
	    ckpt_listing_count(l, "__[0-9]*.metadata", NULL))
		return fail_no_index(path, l, data_files, err);
	if (ckpt_listing_find(l, CKPT_TC_INDEX))
		return ckpt_tc_open(path, l, out, err);
	return open_by_names(path, l, out, err);
}

static int extent_of(const char *path, const struct ckpt_listing *l, enum ckpt_set_extent *out)
{
	struct ckpt_zero_names names;
	struct ckpt_hf_found found;
	char stem[256];
	int rc;

	*out = CKPT_SET_WHOLE;
	if (ckpt_listing_find(l, ".metadata") || ckpt_listing_find(l, ".metadata.tmp") ||
	    ckpt_listing_count(l, "*.distcp", NULL) ||
	    ckpt_listing_count(l, "__[0-9]*.metadata", NULL) || ckpt_listing_find(l, CKPT_TC_INDEX))
		return 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ckpt_listing_count(l, others[i].pattern, NULL))
			return 0;
	rc = ckpt_zero_find(path, l, &names, NULL);
	ckpt_zero_names_clear(&names);
	if (rc) /* an error is one that opening explains */
		return rc == CKPT_E_NOMEM ? rc : 0;
	if (ckpt_ranks_find(l, stem, sizeof(stem)))
		*out = CKPT_SET_FILES;
	else if (!ckpt_hf_find(l, &found))
		*out = CKPT_SET_NONE;
	else if (!found.single)
		*out = CKPT_SET_FILES;
	else
		*out = ckpt_hf_is_model_name(found.single) ? CKPT_SET_SINGLE : CKPT_SET_ONLY;
	return 0;
}

int ckpt_set_extent(const char *path, enum ckpt_set_extent *out, struct ckpt_error *err)
{
	struct ckpt_listing listing;
	int rc = ckpt_listing_read(path, &listing, NULL);

	*out = CKPT_SET_NONE;
	if (rc == 0)
		rc = extent_of(path, &listing, out);
	ckpt_listing_clear(&listing);
	return rc == CKPT_E_NOMEM ? ckpt_fail_nomem(err) : 0;
}

/* The name of a file in its directory, FOLDER, which is to be freed. NULL: no memory. */
static const char *split_path(const char *path, char **folder)
{
	const char *slash = strrchr(path, '/');

	*folder = !slash	  ? strdup(".")
		  : slash == path ? strdup("/")
				  : strndup(path, (size_t)(slash - path));
	return *folder ? (slash ? slash + 1 : path) : NULL;
}

int ckpt_set_refuse_index(const char *path, struct ckpt_error *err)
{
	struct ckpt_listing listing;
	char shown[200];
	int rc = ckpt_listing_read(path, &listing, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < listing.count; i++) {
		const char *name = listing.items[i].name;

		if (!listing.items[i].is_folder && ckpt_hf_is_index_name(name))
			rc = ckpt_fail(err, CKPT_E_OUTPUT, "has '%s', the index of a set of shards, which loaders go by: remove that set, or write one",
				       ckpt_escape(shown, sizeof(shown), name, strlen(name)));
	}
	ckpt_listing_clear(&listing);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

bool ckpt_set_is_index(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	return ckpt_hf_is_index_name(slash ? slash + 1 : path) && stat(path, &st) == 0 &&
	       S_ISREG(st.st_mode);
}

/* ---- a directory that is replaced meanwhile ---- */

/* The directory, as it was when it was opened; FD -1: it cannot be held. */
struct held_folder {
	const char *path;
	size_t len;
	int fd;
	struct ckpt_error *err;
};

static int check_is_in(void *ctx, const struct ckpt_model_file *file)
{
	const struct held_folder *held = ctx;
	const char *name;
	struct stat st;

	if (!file->path || !file->has_identity || strncmp(file->path, held->path, held->len) != 0 || file->path[held->len] != '/')
		return 0;
	name = file->path + held->len + strspn(file->path + held->len, "/");
	if (fstatat(held->fd, name, &st, 0) == 0 && st.st_dev == file->dev && st.st_ino == file->ino)
		return 0;
	return ckpt_error_at(held->err, ckpt_fail(held->err, CKPT_E_CHANGED, "was replaced, or the directory was, while that was being opened"), file->path, NULL,
			     CKPT_NO_OFFSET);
}

/* All files of *MODEL are those of the one directory: where its name leads elsewhere now, they could be of two. */
static int check_all_in(struct held_folder *held, int rc, struct ckpt_model **model)
{
	if (held->fd < 0)
		return rc;
	if (rc == 0)
		rc = ckpt_model_each_file(*model, check_is_in, held);
	close(held->fd);
	if (rc < 0) {
		ckpt_close(*model);
		*model = NULL;
	}
	return rc;
}

static struct held_folder hold(const char *path, struct ckpt_error *err)
{
	return (struct held_folder){ path, strlen(path), open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), err };
}

static int open_by_index(const char *path, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_hf_found found = { 0 };
	char *folder;
	int rc;

	found.index = split_path(path, &folder);
	if (found.index) {
		struct held_folder held = hold(folder, err);

		rc = check_all_in(&held, ckpt_hf_open(folder, NULL, &found, out, err), out);
	} else {
		rc = ckpt_fail_nomem(err);
	}
	free(folder);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

int ckpt_set_open(const char *path, struct ckpt_model **out, struct ckpt_error *err)
{
	struct ckpt_listing listing;
	struct held_folder held;
	size_t len = strlen(path);
	char *folder = strdup(path);
	int rc;

	*out = NULL;
	if (!folder)
		return ckpt_fail_nomem(err);
	if (ckpt_set_is_index(path)) {
		free(folder);
		return open_by_index(path, out, err);
	}
	while (len > 1 && folder[len - 1] == '/')
		folder[--len] = '\0';
	held = hold(folder, err);
	rc = ckpt_listing_read(folder, &listing, err);
	if (rc == 0)
		rc = open_listed(folder, &listing, out, err);
	rc = check_all_in(&held, rc, out);
	ckpt_listing_clear(&listing);
	free(folder);
	return ckpt_error_at(err, rc, path, NULL, CKPT_NO_OFFSET);
}

static int open_item(struct ckpt_dcp *dcp, const char *name, struct ckpt_source **out,
		     struct ckpt_error *err)
{
	uint64_t *slot = ckpt_strmap_find(&dcp->index.entry_by_fqn, name, strlen(name));
	const struct ckpt_dcp_entry *e = slot ? &dcp->index.entries[*slot] : NULL;
	char shown[120];

	ckpt_escape(shown, sizeof(shown), name, strlen(name));
	if (!e)
		return ckpt_fail(err, CKPT_E_NOTFOUND, "there is no '%s' in the index", shown);
	if (!e->chunk_count)
		return ckpt_fail(err, CKPT_E_NOTFOUND, "'%s' has no chunks", shown);
	return ckpt_dcp_chunk_source(dcp, e, &dcp->index.chunks[e->first_chunk], out, err);
}

static int open_index(const char *path, const char *name, struct ckpt_source **out,
		      struct ckpt_error *err)
{
	char *index_path;
	int rc;

	if (ckpt_path_join(path, name, &index_path, err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_source_open(index_path, out, err);
	free(index_path);
	return rc;
}

static bool has_weights(const char *path)
{
	struct ckpt_listing l;
	struct ckpt_hf_found found;
	bool has = ckpt_listing_read(path, &l, NULL) == 0 && ckpt_hf_find(&l, &found);

	ckpt_listing_clear(&l);
	return has;
}

static int fail_no_pickle(struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_UNSUPPORTED, "has no pickle as index; name one of its files");
}

int ckpt_set_open_pickle(const char *path, const char *name, struct ckpt_source **out,
			 struct ckpt_error *err)
{
	struct ckpt_model *model;
	int rc;

	*out = NULL;
	if (!name) {
		rc = open_index(path, ".metadata", out, err);
		/* torch_checkpointing's; if there is neither, the first is what is missing */
		if (rc < 0 && open_index(path, CKPT_TC_INDEX, out, NULL) == 0)
			rc = 0;
		return rc < 0 && has_weights(path) ? fail_no_pickle(err) : rc;
	}
	rc = ckpt_set_open(path, &model, err);
	if (rc < 0)
		return rc;
	if (model->doc->format == &ckpt_format_dcp)
		rc = open_item(ckpt_dcp_of(model), name, out, err);
	else
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "has no items; name one of its files");
	ckpt_close(model); /* the item holds its file */
	return rc;
}

const struct ckpt_format *ckpt_set_format(const char *name)
{
	return !strcmp(name, "dcp") ? &ckpt_format_dcp : NULL;
}

int ckpt_set_save_shards(const struct ckpt_model *model, const char *path, bool by_rank,
			 const struct ckpt_save_options *o, struct ckpt_save_report *report,
			 struct ckpt_error *err)
{
	return by_rank ? ckpt_hf_save_split(model, path, o, report, err)
		       : ckpt_hf_save(model, path, o, report, err);
}
