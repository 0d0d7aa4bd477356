/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_EDIT_H
#define CKPT_EDIT_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Edits of names. A STATE DICT is a mapping in which a tensor, or a dict of tensors, stands under
 * a string key, wherever it is in the checkpoint; all of them are edited. Every entry keeps its
 * place. The `_metadata` of a module's state dict is renamed with it, as torch 2.x does; so are
 * lists of parameter names under `param_groups` (`params`, `param_names`).
 *
 * No edit reads or copies tensor bytes. The result shares the file with MODEL and must be closed
 * on its own; both may be closed in any order.
 */
struct ckpt_edit_options {
	size_t size;
	const char *const *at; /* edit only these names and what is below them; NULL: everywhere */
	size_t at_count;
	bool anywhere; /* strip: also inside a name, after a dot ("net.module.conv") */
};
#define CKPT_EDIT_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_edit_options) \
	}

/* What one state dict got. */
struct ckpt_edit_place {
	const char *name; /* "" for the root */
	uint64_t renamed;
};

struct ckpt_edit_report {
	size_t size;
	uint64_t renamed;	   /* keys of state dicts */
	uint64_t metadata_renamed; /* keys of `_metadata` */
	uint64_t names_renamed;	   /* parameter names in lists */
	uint64_t state_dicts;	   /* that were looked at */
	const struct ckpt_edit_place
		*places; /* those with renamed keys; lives as long as the result */
	size_t place_count;
};
#define CKPT_EDIT_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_edit_report) \
	}

/*
 * Take PREFIX ("module.", "_orig_mod.") off every key that begins with it. A prefix ends with a
 * dot; it is added where it is missing, so that only whole components match. In `_metadata`, ''
 * is passed over, the entry named like the prefix ("module") takes the place of '', and
 * "module.x" becomes "x".
 *
 * Returns 0, also if nothing was renamed (see the report); CKPT_E_CLASH if two entries of one
 * state dict would get the same name; CKPT_E_NOTFOUND if nothing is called as AT says; CKPT_E_ARG;
 * CKPT_E_NOMEM. REPORT may be NULL.
 */
CKPT_API int ckpt_strip_prefix(const struct ckpt_model *model, const char *prefix,
			       const struct ckpt_edit_options *options, struct ckpt_model **out,
			       struct ckpt_edit_report *report, struct ckpt_error *err);

/*
 * Put PREFIX in front of every key of the modules' state dicts. As almost any mapping with a
 * tensor is a state dict, this takes only those that have `_metadata`, or hold nothing but tensors
 * under string keys, and none that belong to an optimizer; AT overrides the choice.
 *
 * "module." gives the entries that DistributedDataParallel(m).state_dict() has: `_metadata` gets a new first
 * entry '' and the old one becomes "module". CKPT_E_NOTFOUND if no state dict was found.
 */
CKPT_API int ckpt_add_prefix(const struct ckpt_model *model, const char *prefix,
			     const struct ckpt_edit_options *options, struct ckpt_model **out,
			     struct ckpt_edit_report *report, struct ckpt_error *err);

/*
 * Rename keys with COUNT expressions s/PATTERN/REPLACEMENT/[g], applied in order to every key of the
 * mappings in which tensors stand; what holds only other dicts (a trainer's file) and what belongs to
 * an optimizer is left alone, unless AT names it, and parameter names in `param_groups` follow. Any
 * character may stand for the slash. Patterns are Perl-compatible; \1 and \g<name> in the
 * replacement mean what they mean in Python's re.sub.
 */
CKPT_API int ckpt_rename(const struct ckpt_model *model, const char *const *expressions,
			 size_t count, const struct ckpt_edit_options *options,
			 struct ckpt_model **out, struct ckpt_edit_report *report,
			 struct ckpt_error *err);

/* How many keys of the state dicts begin with PREFIX, out of how many of the dicts that have some. */
struct ckpt_prefix_count {
	size_t size;
	uint64_t with_prefix, keys;
};
#define CKPT_PREFIX_COUNT_INIT \
	{ \
		.size = sizeof(struct ckpt_prefix_count) \
	}
CKPT_API int ckpt_count_prefix(const struct ckpt_model *model, const char *prefix,
			       struct ckpt_prefix_count *out, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
