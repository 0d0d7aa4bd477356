/* SPDX-License-Identifier: Apache-2.0 */
#include "set/hf/hf.h"
#include "set/hf/name.h"

#include "base/c_locale.h"

#include <string.h>

/*
 * Which of the files in a directory is the model: transformers takes safetensors before pickles,
 * one file before several, and a variant (model.fp16.safetensors) only if it is asked for. Source:
 * _get_resolved_checkpoint_files() in transformers/modeling_utils.py, of 4.57; diffusers and peft
 * have other stems.
 */

enum { NO_CHOICE = 1000, INDEX = 1, PICKLE = 2, OTHER_STEM = 4, VARIANT = 8 };

static bool is_pickle(const char *name)
{
	return strstr(name, ".bin") != NULL;
}

static bool is_weights(const char *name)
{
	return strstr(name, ".safetensors") || is_pickle(name);
}

bool ckpt_hf_is_index_name(const char *name)
{
	return is_weights(name) && (ckpt_glob_matches("*.index.json", name, 0) ||
				    ckpt_glob_matches("*.index.*.json", name, 0));
}

/* "model.fp16.safetensors", "model.safetensors.index.fp16.json" */
static bool is_variant(const char *name)
{
	size_t stem = strcspn(name, ".");

	return ckpt_glob_matches("*.index.*.json", name, 0) ||
	       (strncmp(name + stem, ".safetensors", 12) && strncmp(name + stem, ".bin", 4));
}

static bool has_stem(const char *name, const char *stem)
{
	return !strncmp(name, stem, strlen(stem)) && name[strlen(stem)] == '.';
}

/* The less the better. */
static int preference_of(const char *name)
{
	int rank = (is_pickle(name) ? PICKLE : 0) | (ckpt_hf_is_index_name(name) ? INDEX : 0);

	if (!has_stem(name, "model") && !has_stem(name, "pytorch_model"))
		rank |= OTHER_STEM;
	return is_variant(name) ? rank | VARIANT : rank;
}

/* Names of whole models: others may lie beside a model. */
static bool is_single(const char *name)
{
	static const char *const stems[] = { "model", "pytorch_model", "diffusion_pytorch_model",
					     "adapter_model" };

	struct ckpt_hf_name parts;

	if ((!ckpt_glob_matches("*.safetensors", name, 0) &&
	     !ckpt_glob_matches("*.bin", name, 0)) ||
	    ckpt_hf_name_parse(name, &parts))
		return false;
	for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
		if (has_stem(name, stems[i]))
			return true;
	return false;
}

bool ckpt_hf_is_model_name(const char *name)
{
	return ckpt_hf_is_index_name(name) || is_single(name);
}

static bool is_numbered(const char *name)
{
	struct ckpt_hf_name parts;

	return is_weights(name) && ckpt_hf_name_parse(name, &parts);
}

static const char *find_best(const struct ckpt_listing *l, bool (*is_one)(const char *name))
{
	const char *found = NULL;
	int rank = NO_CHOICE;

	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->items[i].name;

		if (l->items[i].is_folder || !is_one(name) || preference_of(name) >= rank)
			continue;
		found = name;
		rank = preference_of(name);
	}
	return found;
}

static bool is_part(const char *name)
{
	return ckpt_glob_matches("shard-*-model-*-of-*.safetensors", name, 0);
}

bool ckpt_hf_find(const struct ckpt_listing *l, struct ckpt_hf_found *out)
{
	const char *model = find_best(l, ckpt_hf_is_model_name);
	const struct ckpt_listed *only;

	*out = (struct ckpt_hf_found){ 0 };
	if (model && ckpt_hf_is_index_name(model))
		out->index = model;
	else if (model)
		out->single = model;
	else if (!(out->sharded = find_best(l, is_part)))
		out->numbered = find_best(l, is_numbered);
	if (!model && !out->sharded && !out->numbered &&
	    ckpt_listing_count(l, "*.safetensors", &only) == 1)
		out->single = only->name;
	return out->index || out->single || out->numbered || out->sharded;
}
