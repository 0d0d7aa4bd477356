/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a directory of torch_checkpointing as a model: reads the index, opens every file of every
 * item and rank, lays the values of the ranks over each other (tree.c), and joins tensors that
 * are spread over ranks (join.c).
 *
 * The document's own pickle is the index, which has no tensors: an empty model is made of it, and
 * the result is derived from that one, with storages of its own. Ids of all files follow each
 * other, so that values of different files never have the same. Storages of parts that were
 * joined away are dropped at the end.
 */
#include "set/tc/tc.h"

#include "base/paths.h"
#include "model/plain_values.h"
#include "set/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tc_opener {
	struct ckpt_tc *tc;
	struct ckpt_document *doc;
	struct ckpt_model *to; /* the result */
	struct ckpt_tc_tree tree;
	uint32_t *roots; /* malloc: by item, its node */
	struct ckpt_error *err;
};

static void free_tc(void *container)
{
	struct ckpt_tc *tc = container;

	for (uint32_t i = 0; tc->members && i < tc->index.file_count; i++)
		ckpt_member_clear(&tc->members[i]);
	free(tc->members);
	free(tc->names);
	ckpt_tc_index_clear(&tc->index);
	free(tc->path);
	free(tc);
}

/* ---- the files ---- */

static int read_index(struct tc_opener *o, const struct ckpt_listing *l)
{
	struct ckpt_tc *tc = o->tc;
	int rc = ckpt_fields_load(o->doc->source, &o->doc->pickle_bytes, &o->doc->pickle, o->err);

	if (rc == 0)
		rc = ckpt_tc_index_read(&o->doc->pickle, &tc->index, o->err);
	if (rc < 0)
		return ckpt_error_at(o->err, rc, ckpt_source_path(o->doc->source), NULL,
				     CKPT_NO_OFFSET);
	return ckpt_tc_index_add_listed(&tc->index, l, o->err);
}

static int open_member(struct tc_opener *o, uint32_t i)
{
	struct ckpt_tc *tc = o->tc;
	char *path;
	int rc;

	tc->names[i] = tc->index.files[i].name;
	if (ckpt_path_join(tc->path, tc->names[i], &path, o->err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_member_open(&tc->members[i], path, o->doc->pickle.next_id, o->err);
	free(path);
	if (rc < 0)
		return rc;
	o->doc->pickle.next_id = tc->members[i].pickle.next_id;
	o->doc->pickle_len += tc->members[i].pickle.nbytes;
	return 0;
}

/*
 * An item that is described has to have a file; which ranks may do without is found out tensor by
 * tensor.
 */
static int check_items(struct tc_opener *o)
{
	const struct ckpt_tc_index *x = &o->tc->index;

	for (uint32_t i = 0, file = 0; i < x->item_count; i++) {
		bool any = false;

		for (; file < x->file_count && x->files[file].item == i; file++)
			any = true;
		if (!any && x->items[i].described)
			return ckpt_fail(o->err, CKPT_E_FORMAT,
					 "none of the files of item '%s' is there ('%s_0.pt' ...)",
					 x->items[i].name, x->items[i].name);
	}
	return 0;
}

static int open_members(struct tc_opener *o)
{
	struct ckpt_tc *tc = o->tc;
	size_t room = tc->index.file_count + (size_t)1;
	int rc = check_items(o);

	if (rc < 0)
		return rc;
	tc->members = calloc(room, sizeof(*tc->members));
	tc->names = calloc(room, sizeof(*tc->names));
	if (!tc->members || !tc->names)
		return ckpt_fail_nomem(o->err);
	for (uint32_t i = 0; rc == 0 && i < tc->index.file_count; i++)
		rc = open_member(o, i);
	return rc;
}

/* ---- the values ---- */

static int add_values(struct tc_opener *o)
{
	struct ckpt_tc *tc = o->tc;
	int rc = ckpt_tc_tree_init(&o->tree, o->to, o->err);

	o->roots = malloc((tc->index.item_count + (size_t)1) * sizeof(*o->roots));
	if (rc == 0 && !o->roots)
		rc = ckpt_fail_nomem(o->err);
	for (uint32_t i = 0; rc == 0 && i < tc->index.item_count; i++)
		o->roots[i] = CKPT_TC_NONE;
	for (uint32_t i = 0; rc == 0 && i < tc->index.file_count; i++) {
		rc = ckpt_member_add_storages(&tc->members[i], o->to, 't', o->err);
		if (rc == 0)
			rc = ckpt_tc_tree_add(&o->tree, &o->roots[tc->index.files[i].item], i,
					      tc->members[i].pickle.root, o->err);
	}
	return rc;
}

/* {item: value} */
static int make_root(struct tc_opener *o)
{
	struct ckpt_value *root = ckpt_model_new_value(o->to, CKPT_DICT);
	const struct ckpt_tc_index *x = &o->tc->index;

	for (uint32_t i = 0; root && i < x->item_count; i++) {
		const char *name = x->items[i].name;
		const struct ckpt_value *pair[2] = { NULL, NULL };

		if (o->roots[i] == CKPT_TC_NONE)
			continue;
		pair[0] = ckpt_model_new_str(o->to, name, strlen(name));
		pair[1] = o->tree.nodes[o->roots[i]].value;
		if (!pair[0] || !ckpt_seq_add_many(o->to->arena, &root->u.seq, pair, 2))
			return ckpt_fail_nomem(o->err);
	}
	if (!root)
		return ckpt_fail_nomem(o->err);
	o->to->root = root;
	return 0;
}

/* ---- the document ---- */

static int each_file(const struct ckpt_document *doc, ckpt_model_visit_file *visit, void *ctx)
{
	const struct ckpt_tc *tc = doc->container;
	int rc = ckpt_model_visit_source(doc->source, NULL, visit, ctx);

	for (uint32_t i = 0; rc == 0 && i < tc->index.file_count; i++)
		rc = ckpt_model_visit_source(tc->members[i].source, NULL, visit, ctx);
	return rc;
}

/* All storages of the result are made of those of its files. */
static int storage_bytes(struct ckpt_document *doc, const struct ckpt_storage *s,
			 struct ckpt_recipe *out, struct ckpt_error *err)
{
	(void)doc;
	(void)out;
	return ckpt_fail(err, CKPT_E_FORMAT, "a storage of no file: '%.60s'", s->key);
}

static struct ckpt_document *new_document(const char *path, struct ckpt_source *index)
{
	struct ckpt_document *doc =
		ckpt_document_new(index, &ckpt_format_tc, sizeof(struct ckpt_tc), free_tc);
	struct ckpt_tc *tc;

	if (!doc)
		return NULL;
	tc = doc->container;
	tc->path = strdup(path);
	doc->storage_bytes = storage_bytes;
	doc->each_file = each_file;
	doc->path = tc->path;
	if (tc->path)
		return doc;
	ckpt_document_unref(doc);
	return NULL;
}

/* An empty model of the document, and over it the one that shows the values of the files. */
static int make_models(struct tc_opener *o)
{
	struct ckpt_model *empty;
	uint32_t next_id = o->doc->pickle.next_id;
	int rc;

	o->doc->pickle.root = &ckpt_value_none;
	rc = ckpt_model_new(o->doc, &empty, o->err);
	o->doc = NULL; /* the model's now, also on failure */
	if (rc < 0)
		return rc;
	rc = ckpt_model_derive(empty, &o->to, o->err);
	ckpt_close(empty);
	if (rc < 0)
		return rc;
	o->to->next_id = next_id;
	return ckpt_model_own_storages(o->to, o->err);
}

static int read_directory(struct tc_opener *o, const struct ckpt_listing *l)
{
	int rc = read_index(o, l);

	if (rc == 0)
		rc = open_members(o);
	if (rc == 0)
		rc = make_models(o);
	if (rc == 0)
		rc = add_values(o);
	if (rc == 0)
		rc = ckpt_tc_join(o->tc, &o->tree, o->roots, o->err);
	if (rc == 0)
		rc = ckpt_tc_tree_finish(&o->tree, o->err);
	if (rc == 0)
		rc = make_root(o);
	return rc == 0 ? ckpt_tc_drop_storages(o->to, o->err) : rc;
}

int ckpt_tc_open(const char *path, const struct ckpt_listing *l, struct ckpt_model **out,
		 struct ckpt_error *err)
{
	struct tc_opener o = { .err = err };
	struct ckpt_source *index;
	char *index_path;
	int rc;

	*out = NULL;
	if (ckpt_path_join(path, CKPT_TC_INDEX, &index_path, err) < 0)
		return CKPT_E_NOMEM;
	rc = ckpt_source_open(index_path, &index, err);
	free(index_path);
	if (rc < 0)
		return rc;
	o.doc = new_document(path, index);
	ckpt_source_unref(index);
	if (!o.doc)
		return ckpt_fail_nomem(err);
	o.tc = o.doc->container;
	rc = read_directory(&o, l);
	ckpt_tc_tree_clear(&o.tree);
	free(o.roots);
	ckpt_document_unref(o.doc);
	if (rc < 0)
		ckpt_close(o.to);
	else
		*out = o.to;
	return rc;
}
