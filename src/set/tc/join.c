/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the tensors of a torch_checkpointing directory together, one after the other (tensor.c
 * does one): gives each described place its node of the tree, then joins what has parts.
 *
 * Tensors can share the lists that describe them, so reading those is paid for (`left`), and
 * meshes are read once. A node whose value was replaced already is one tensor under two names and
 * is skipped. Messages name a tensor by the item and its path with dots.
 */
#include "set/tc/join.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME_STEPS = 64, LISTED_PER_BYTE = 16 };
static const uint64_t LISTED_BASE = 4 << 20;

/* ---- names and messages ---- */

const char *ckpt_tc_name(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n,
			 char shown[CKPT_TC_SHOWN])
{
	const struct ckpt_tc_node *steps[MOST_NAME_STEPS];
	uint32_t count = 0;

	for (; n->key && count < MOST_NAME_STEPS; n = &j->tree->nodes[n->parent])
		steps[count++] = n;
	while (n->key)
		n = &j->tree->nodes[n->parent];
	j->name.len = 0;
	ckpt_buf_printf(&j->name, "%s", j->tc->index.items[j->tc->index.files[n->file].item].name);
	while (count--) {
		ckpt_buf_add_u8(&j->name, '.');
		ckpt_buf_add(&j->name, steps[count]->key, steps[count]->key_len);
	}
	return ckpt_escape(shown, CKPT_TC_SHOWN, (char *)j->name.data,
			   j->name.bad ? 0 : j->name.len);
}

int ckpt_tc_fail_node(struct ckpt_tc_joiner *j, const struct ckpt_tc_node *n, uint32_t file, int rc)
{
	char name[CKPT_TC_SHOWN], shown[CKPT_TC_SHOWN] = "";

	if (file != CKPT_TC_NONE)
		ckpt_escape(shown, sizeof(shown), j->tc->names[file], strlen(j->tc->names[file]));
	return ckpt_error_prefix(j->err, rc, "'%s'%s%s: ", ckpt_tc_name(j, n, name),
				 *shown ? " in " : "", shown);
}

void ckpt_tc_describe_absent(const struct ckpt_tc_index *x, uint32_t item, uint32_t rank,
			     char *text, size_t size)
{
	uint32_t file = ckpt_tc_index_file(x, item, rank);

	if (file == UINT32_MAX)
		snprintf(text, size,
			 "'%s_%" PRIu32 ".pt' is missing, which has rank %" PRIu32 "'s part",
			 x->items[item].name, rank, rank);
	else
		snprintf(text, size, "'%.150s' does not have rank %" PRIu32 "'s part",
			 x->files[file].name, rank);
}

const struct ckpt_value *ckpt_tc_ranks(const struct ckpt_value *group)
{
	const struct ckpt_value *ranks = ckpt_tc_field(group, "ranks");

	return ranks && (ranks->kind == CKPT_TUPLE || ranks->kind == CKPT_LIST) ? ranks : NULL;
}

/* ---- all tensors ---- */

static int fail_place(struct ckpt_tc_joiner *j, const struct ckpt_tc_place *place, bool there)
{
	const struct ckpt_tc_index *x = &j->tc->index;
	const struct ckpt_value *first =
		place->groups->u.seq.count ? ckpt_tc_ranks(place->groups->u.seq.items[0]) : NULL;
	char shown[CKPT_TC_SHOWN], text[CKPT_TC_SHOWN + 80] = "no file has it";

	if (there)
		snprintf(text, sizeof(text), "is no tensor");
	for (uint32_t i = 0; !there && first && i < first->u.seq.count; i++) {
		const struct ckpt_value *rank = first->u.seq.items[i];

		if (rank->kind != CKPT_INT || rank->u.integer < 0 ||
		    rank->u.integer >= (int64_t)x->world_size)
			continue;
		ckpt_tc_describe_absent(x, place->item, (uint32_t)rank->u.integer, text,
					sizeof(text));
		break;
	}
	return ckpt_fail(j->err, CKPT_E_FORMAT, "item '%s': %s, which the metadata describe: %s",
			 x->items[place->item].name,
			 ckpt_escape(shown, sizeof(shown), place->text->u.bytes.ptr,
				     place->text->u.bytes.len),
			 text);
}

static int note_places(struct ckpt_tc_joiner *j)
{
	const struct ckpt_tc_index *x = &j->tc->index;

	for (uint32_t i = 0; i < x->place_count; i++) {
		const struct ckpt_tc_place *place = &x->places[i];
		bool shared = false;
		uint32_t node = CKPT_TC_NONE;

		if (j->roots[place->item] != CKPT_TC_NONE)
			node = ckpt_tc_tree_find(j->tree, j->roots[place->item], place->steps,
						 place->step_count, &shared);
		if (shared)
			continue; /* its parts are under its first name */
		if (node == CKPT_TC_NONE || j->tree->nodes[node].first_part == CKPT_TC_NONE)
			return fail_place(j, place, node != CKPT_TC_NONE);
		j->tree->nodes[node].place = i;
	}
	return 0;
}

static bool is_replaced(const struct ckpt_model *to, const struct ckpt_value *v)
{
	return ckpt_model_now(to, v) != v;
}

static int join_all(struct ckpt_tc_joiner *j)
{
	int rc = note_places(j);

	for (uint32_t i = 0; rc == 0 && i < j->tree->node_count; i++) {
		const struct ckpt_tc_node *n = &j->tree->nodes[i];

		if (n->first_part == CKPT_TC_NONE || is_replaced(j->tree->to, n->value))
			continue; /* or one tensor under two names */
		rc = n->place != CKPT_TC_NONE ? ckpt_tc_join_described(j, n)
					      : ckpt_tc_join_undescribed(j, n);
	}
	return rc;
}

int ckpt_tc_join(struct ckpt_tc *tc, struct ckpt_tc_tree *tree, const uint32_t *roots,
		 struct ckpt_error *err)
{
	uint64_t index_size = ckpt_source_size(tree->to->doc->source);
	struct ckpt_tc_joiner j = { .tc = tc,
				    .tree = tree,
				    .roots = roots,
				    .shardings = { .arena = tc->index.arena,
						   .world_size = tc->index.world_size },
				    .group = calloc(tc->index.world_size, sizeof(*j.group)),
				    .left = LISTED_BASE + LISTED_PER_BYTE * index_size,
				    .err = err };
	int rc = j.group ? 0 : ckpt_fail_nomem(err);

	if (rc == 0)
		rc = ckpt_meshes_init(&j.meshes, index_size + tree->to->doc->pickle_len, err);
	if (rc == 0)
		rc = join_all(&j);
	ckpt_meshes_clear(&j.meshes);
	ckpt_tc_shardings_clear(&j.shardings);
	ckpt_strmap_clear(&j.ties);
	ckpt_buf_clear(&j.key);
	ckpt_buf_clear(&j.name);
	free(j.group);
	return rc;
}
