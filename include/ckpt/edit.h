/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits: each makes a new checkpoint out of one, with other names, devices, dtypes or contents.
 *
 * What must stay true: an edit never changes MODEL, and never reads or copies tensor bytes; they
 * are moved once, when the result is saved. The result shares the file with MODEL and must be
 * closed on its own; the two may be closed in any order, and a result may be edited again.
 *
 * All edits return 0, even if there was nothing to do (see the report), CKPT_E_ARG or CKPT_E_NOMEM;
 * each says what else it returns. OPTIONS and REPORT may be NULL.
 */
#ifndef CKPT_EDIT_H
#define CKPT_EDIT_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an edit did to one state dict. */
struct ckpt_edit_place {
	const char *name; /* "" for the root */
	uint64_t renamed;
};

/* A value that was replaced by another one. */
struct ckpt_edit_change {
	const char *name;     /* where, "" for the root */
	const char *was, *is; /* "Namespace", "dict"; of set, the values: "3", "'a'"; escaped */
};

/* What an edit did. An edit leaves the members that do not concern it at 0. */
struct ckpt_edit_report {
	size_t size;
	uint64_t renamed;	   /* keys of state dicts */
	uint64_t metadata_renamed; /* keys of `_metadata` */
	uint64_t names_renamed;	   /* parameter names in lists */
	uint64_t state_dicts;	   /* that were looked at */
	/* those with renamed keys; live as long as the result */
	const struct ckpt_edit_place *places;
	size_t place_count;
	uint64_t storages_moved; /* to another device */
	uint64_t devices_moved;	 /* devices that stand elsewhere than with a storage */
	uint64_t entries_dropped;
	uint64_t tensors_dropped; /* in these entries, or outside of what was extracted */
	uint64_t tensors_cast, storages_cast;
	uint64_t cast_nbytes_before, cast_nbytes_after; /* of these storages */
	uint64_t tensors_left; /* that should have been cast or compacted, but could not be */
	uint64_t tensors_compacted, storages_made;
	uint64_t compacted_nbytes_before, compacted_nbytes_after; /* of all storages in use */
	const struct ckpt_edit_change *changes; /* sanitize, set; they live as long as the result */
	size_t change_count;
	bool protocol_changed;	/* sanitize: the pickle's protocol is now 2 */
	const char *unmatched;	/* the first pattern that matched nothing, as given; or NULL */
	bool extracted;		/* a part became the whole */
	uint64_t tensors_taken; /* state dict: its entries */
	/* of TorchScript, whose class has no source: all of their tensors were taken */
	uint64_t modules_guessed;
	uint64_t tensors_averaged, storages_averaged;
	/* cast, without CKPT_CAST_ALL: left were an optimizer's, and others without a dimension */
	uint64_t optimizer_left, scalars_left;
	/*
	 * rename: expressions that matched no key, as given; of a map, old names that no key has. They live as
	 * long as the result and what was given.
	 */
	const char *const *unused;
	size_t unused_count;
	uint64_t optimizer_averaged; /* of TENSORS_AVERAGED, those of an optimizer */
	uint64_t tensors_dequantized, scales_dropped; /* the latter are for activations */
	uint64_t quantized_left; /* cast: floating parts of quantized weights, which stay as they are */
};
#define CKPT_EDIT_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_edit_report) \
	}

/* ---- names ---- */

/*
 * Edits of names. A STATE DICT is a mapping that has a tensor, or a dict of tensors, under a string
 * key, wherever it is in the checkpoint; all of them are edited. Every entry keeps its place. The
 * `_metadata` of a module's state dict is renamed with it, as torch 2.x does; so are lists of
 * parameter names under `param_groups` (`params`, `param_names`).
 */

enum ckpt_key_flags {
	CKPT_KEY_ANYWHERE = 1 << 0, /* strip: also inside a name, after a dot ("net.module.conv") */
	CKPT_KEY_SKIP_ABSENT = 1 << 1, /* ckpt_rename_map(): a name that no key has is no error */
};

struct ckpt_key_options {
	size_t size;
	unsigned flags;
	uint32_t reserved;     /* 0 */
	const char *const *at; /* names: edit only these mappings and what is below; NULL: all */
	size_t at_count;
};
#define CKPT_KEY_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_key_options) \
	}

/*
 * Remove PREFIX ("module.", "_orig_mod.") from every key that begins with it. A prefix ends with a
 * dot, which is added if it is missing, so that only whole components match. In `_metadata`, '' is
 * left out, the entry named like the prefix ("module") takes the place of '', and "module.x"
 * becomes "x".
 *
 * CKPT_E_CLASH if two entries of one state dict would get the same name; CKPT_E_NOTFOUND if there
 * is no mapping of a name in AT.
 */
CKPT_API int ckpt_strip_prefix(const struct ckpt_model *model, const char *prefix,
			       const struct ckpt_key_options *options, struct ckpt_model **out,
			       struct ckpt_edit_report *report, struct ckpt_error *err);

/*
 * Strip from every key what wrappers of modules put into it: "module." (DistributedDataParallel and
 * DataParallel), "_orig_mod." (torch.compile), "_forward_module." (Lightning),
 * "_fsdp_wrapped_module." (FSDP) and "_checkpoint_wrapped_module." (activation checkpointing), in
 * any order, as often as they occur, also inside a name. Only whole components match, and never the
 * last one, which names the tensor. An attribute of the model that is itself called "module" goes
 * with them. In `_metadata`, the entry of the module in a wrapper takes the place of the wrapper's
 * entry. Of OPTIONS, only AT counts.
 *
 * CKPT_E_CLASH and CKPT_E_NOTFOUND as ckpt_strip_prefix().
 */
CKPT_API int ckpt_strip_wrappers(const struct ckpt_model *model,
				 const struct ckpt_key_options *options, struct ckpt_model **out,
				 struct ckpt_edit_report *report, struct ckpt_error *err);

/* How many keys of state dicts have the prefix of one wrapper. */
struct ckpt_wrapper_count {
	size_t size;
	const char *prefix;  /* "_orig_mod."; static */
	const char *wrapper; /* "torch.compile"; static */
	uint64_t first;	     /* keys that begin with it */
	uint64_t inside;     /* other keys that have it */
	uint64_t keys;	     /* all keys of the state dicts in which a key has any wrapper */
};

/*
 * Call FOUND once for each of these wrappers that keys have, DistributedDataParallel first. Inside a
 * name, "module." counts only next to another wrapper: elsewhere it may be an attribute of the
 * model. COUNT lives as long as the call of FOUND; if FOUND returns less than 0, so does this, with
 * the same number. Of OPTIONS, only AT counts.
 *
 * Returns 0, CKPT_E_ARG, CKPT_E_NOMEM, and CKPT_E_NOTFOUND as ckpt_strip_prefix().
 */
CKPT_API int ckpt_count_wrappers(const struct ckpt_model *model,
				 const struct ckpt_key_options *options,
				 int (*found)(void *ctx, const struct ckpt_wrapper_count *count),
				 void *ctx, struct ckpt_error *err);

/*
 * Put PREFIX in front of every key in the state dicts of modules. Since almost any mapping with a
 * tensor is a state dict, this takes only those that have `_metadata` or hold nothing but tensors
 * under string keys, and none that belong to an optimizer; AT overrides the choice.
 *
 * "module." gives the entries that DistributedDataParallel(m).state_dict() has: `_metadata` gets a
 * new first entry '' and the old one becomes "module". CKPT_E_NOTFOUND if no state dict was found.
 */
CKPT_API int ckpt_add_prefix(const struct ckpt_model *model, const char *prefix,
			     const struct ckpt_key_options *options, struct ckpt_model **out,
			     struct ckpt_edit_report *report, struct ckpt_error *err);

/*
 * Rename keys with COUNT expressions s/PATTERN/REPLACEMENT/[g], applied in order to every key of
 * mappings that contain tensors. Mappings that hold only other dicts (a trainer's file), and what
 * belongs to an optimizer, stay as they are unless AT names them; parameter names in `param_groups`
 * follow. Any character may take the place of the slash. Patterns are Perl-compatible; \1 and
 * \g<name> in the replacement mean what they mean in Python's re.sub.
 */
CKPT_API int ckpt_rename(const struct ckpt_model *model, const char *const *expressions,
			 size_t count, const struct ckpt_key_options *options,
			 struct ckpt_model **out, struct ckpt_edit_report *report,
			 struct ckpt_error *err);

/* One line of a map of names. */
struct ckpt_name_pair {
	const char *from, *to; /* whole keys of a state dict */
	uint64_t renamed;      /* set: how many keys had the name FROM */
};

/*
 * Rename the keys that COUNT PAIRS name, in the mappings that ckpt_rename() takes; all at once, so that two names
 * may be swapped. A module's entry in `_metadata` goes where the keys below it go, if all of them go to one place and
 * keep what is behind the module's name.
 *
 * All or nothing: CKPT_E_NOTFOUND if no key has one of the names, which RENAMED says of each; CKPT_E_ARG if two pairs
 * have the same old or the same new name; CKPT_E_CLASH if a new name is that of a key that stays.
 */
CKPT_API int ckpt_rename_map(const struct ckpt_model *model, struct ckpt_name_pair *pairs,
			     size_t count, const struct ckpt_key_options *options,
			     struct ckpt_model **out, struct ckpt_edit_report *report,
			     struct ckpt_error *err);

/* In state dicts that have keys with PREFIX: how many keys have it, out of how many keys. */
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

/*
 * The same of COUNT prefixes, in one walk. OUT has as many structs as PREFIXES has texts, each as long
 * as the first one says. CKPT_E_ARG also for more than 64 prefixes.
 */
CKPT_API int ckpt_count_prefixes(const struct ckpt_model *model, const char *const *prefixes,
				 size_t count, struct ckpt_prefix_count *out, struct ckpt_error *err);

/*
 * Turn the keys of every dict called `state` back into numbers if all of them are decimal numbers:
 * "0", "1" ... An optimizer looks up its state by number, and DCP turns all keys into strings.
 * Report: renamed, state_dicts. Returns 0, CKPT_E_NOMEM.
 */
CKPT_API int ckpt_number_keys(const struct ckpt_model *model, struct ckpt_model **out,
			      struct ckpt_edit_report *report, struct ckpt_error *err);

/* ---- devices ---- */

struct ckpt_device_map {
	const char *from; /* a tag, or a glob over tags ("cuda:*"); NULL: every tag */
	const char *to;	  /* a device as torch spells it; "cuda" means "cuda:0" */
};

enum ckpt_remap_flags {
	/* also torch.device values, which torch.load does not change */
	CKPT_REMAP_DEVICE_OBJECTS = 1 << 0,
	CKPT_REMAP_ANY_DEVICE = 1 << 1, /* allow device types that torch itself does not know */
};

struct ckpt_remap_options {
	size_t size;
	unsigned flags;
	uint32_t reserved; /* 0 */
};
#define CKPT_REMAP_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_remap_options) \
	}

/*
 * Change the devices that tensors will be loaded to, as torch.load(map_location=...) followed by
 * torch.save does on a machine that has these devices. A tag is looked up by its exact text, all
 * maps apply at once ("cuda:0=cuda:1 cuda:1=cuda:0" swaps), and a tag without a map stays. Exact
 * texts come before globs; globs apply in their order. The devices of wrapper subclasses (DTensor),
 * and of tensors that are rebuilt from numpy or from the CPU, change along with the storages. Meta
 * tensors stay meta. Tensors that are rebuilt from numpy keep that form, which torch would write
 * only on such a device.
 *
 * CKPT_E_ARG if torch accepts no device of the name TO; CKPT_E_UNSUPPORTED for "meta", where no
 * data would be left.
 */
CKPT_API int ckpt_remap(const struct ckpt_model *model, const struct ckpt_device_map *maps,
			size_t count, const struct ckpt_remap_options *options,
			struct ckpt_model **out, struct ckpt_edit_report *report,
			struct ckpt_error *err);

/* ---- parts ---- */

/*
 * Make the value called NAME (as for ckpt_find()) the whole checkpoint: the state dict out of a
 * trainer's file. CKPT_E_NOTFOUND.
 */
CKPT_API int ckpt_extract(const struct ckpt_model *model, const char *name, struct ckpt_model **out,
			  struct ckpt_edit_report *report, struct ckpt_error *err);

struct ckpt_take_options {
	size_t size;
	const char *at; /* name of what to take; NULL: the only one there is */
};
#define CKPT_TAKE_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_take_options) \
	}

/*
 * Make the state dict of a module the whole checkpoint. The module was saved whole
 * (torch.save(model)), or is in a TorchScript archive. The result is what the module's state_dict()
 * holds: parameters, buffers that are saved, then those of the modules below, in an OrderedDict
 * without `_metadata`; tensors that share a storage still share it. Classes are not looked up, so
 * what a class adds itself (get_extra_state(), hooks) is missing.
 *
 * A torch.export program says itself what its state dict is; the result is that, also without
 * gradients. AT names the program if the archive has several.
 *
 * AT names the module; without it there must be exactly one module in the checkpoint, not counting
 * modules inside another one. CKPT_E_NOTFOUND: there is none, or AT names something else.
 * CKPT_E_ARG: there are several, which the text lists. CKPT_E_UNSUPPORTED: a module was not pickled
 * as its attributes. CKPT_E_LIMIT: modules contain themselves. Report: tensors_taken,
 * modules_guessed.
 */
CKPT_API int ckpt_state_dict(const struct ckpt_model *model,
			     const struct ckpt_take_options *options, struct ckpt_model **out,
			     struct ckpt_edit_report *report, struct ckpt_error *err);

/*
 * Make the state dict that holds the weights the whole checkpoint, for formats that hold nothing
 * else. AT names it, a mapping or a module. Without AT it is the only mapping that contains
 * tensors, or the one with the most bytes in its tensors, the first of equals; what belongs to an
 * optimizer (a mapping with `param_groups`) never counts. If there is none, or the checkpoint is a
 * program, the result is that of ckpt_state_dict().
 *
 * CKPT_E_NOTFOUND; else as ckpt_state_dict(). Report: tensors_taken, tensors_dropped (outside of
 * it), extracted (it was a part), state_dicts (how many there were to choose from, 0: it is a
 * module's), places (its name; place_count is 1 or 0).
 */
CKPT_API int ckpt_take_weights(const struct ckpt_model *model,
			       const struct ckpt_take_options *options, struct ckpt_model **out,
			       struct ckpt_edit_report *report, struct ckpt_error *err);

/*
 * Keep the entries of dicts and lists whose names match one of KEEP (all, if there is none), except
 * those that match one of DROP; patterns as for ckpt_pattern_new(). Whatever leads to an entry that
 * is kept stays. Tuples, objects and tensors are kept or dropped as a whole. `_metadata` stays. A
 * container with several places is kept if one of them is; the names below it are those of the
 * first place.
 *
 * CKPT_E_NOTFOUND if none of KEEP matches anything; if only some of them match nothing, the first
 * of these is in the report. CKPT_E_UNSUPPORTED if a pattern of DROP matches only parts of tuples
 * and objects.
 */
CKPT_API int ckpt_select(const struct ckpt_model *model, const char *const *keep, size_t keep_count,
			 const char *const *drop, size_t drop_count, struct ckpt_model **out,
			 struct ckpt_edit_report *report, struct ckpt_error *err);

/* ---- values ---- */

enum ckpt_set_flags {
	CKPT_SET_JSON = 1 << 0, /* TEXT is JSON, and says the type */
};

/*
 * Let the value called NAME (as for ckpt_find()) be TEXT, in the type that it has: an int, a float ("1e-3", "nan"), a bool
 * ("True"), a str, of which TEXT is taken as it is. With CKPT_SET_JSON it becomes what TEXT says, of whatever type: 3 an int,
 * 0.5 a float, "a" a str, true, false, and null None. FLAGS: enum ckpt_set_flags. It is an entry of a dict or list, an item of a
 * tuple, an attribute or the root; a dict or list that is in several places changes in all of them, and other places that
 * showed the same number or text do not. Report: changes, one or none, as repr() shows what it was and is.
 *
 * CKPT_E_NOTFOUND. CKPT_E_ARG if NAME names two things, or TEXT is nothing of the type. CKPT_E_UNSUPPORTED if the value is of another
 * kind (with CKPT_SET_JSON scalars of numpy can be set, too), is an argument of a call or in a set, or is in a tuple that stands
 * in several places.
 */
CKPT_API int ckpt_set(const struct ckpt_model *model, const char *name, const char *text,
		      unsigned flags, struct ckpt_model **out, struct ckpt_edit_report *report,
		      struct ckpt_error *err);

/* ---- numbers ---- */

enum ckpt_cast_flags {
	CKPT_CAST_TO_INTEGER = 1 << 0, /* the caller wants fractions to be cut off */
	CKPT_CAST_ALL = 1 << 1, /* also an optimizer's tensors, and those without a dimension */
};

struct ckpt_cast_options {
	size_t size;
	unsigned flags;
	uint32_t reserved;			 /* 0 */
	const char *const *only, *const *except; /* patterns over names of tensors, or NULL */
	size_t only_count, except_count;
	/*
	 * How weights are quantized: a word of <ckpt/quant.h>, or "plain": they are not, whatever names and a
	 * configuration say. NULL: as these say.
	 */
	const char *as;
};
#define CKPT_CAST_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_cast_options) \
	}

/*
 * Cast the floating tensors to DTYPE (as torch names it; bf16, fp16, fp32 for short), bit for bit
 * as Tensor.to() of torch 2.14 does. Integers, bool, complex and quantized tensors stay, and so do
 * all parts of quantized weights (FP8 codes, scales ...) that ckpt_quant_open() would find: each
 * by itself means nothing. ONLY and EXCEPT choose by name. Storages are cast as a whole, so tied tensors stay tied. A recorded
 * checksum is compared while the numbers are read.
 *
 * Without ONLY and CKPT_CAST_ALL it takes weights alone. Tensors without a dimension stay: counters
 * of steps are among them, which narrow types round. So do those of an optimizer, unless they share
 * bytes with a weight. No file says what belongs to an optimizer; keys of mappings tell it:
 *  - `state`, `param_groups` and what is below them, in a mapping that has `param_groups`; and with
 *    the same words in front of both, of flat keys ("optimizer.state.0.exp_avg" beside
 *    "optimizer.param_groups.0.lr").
 *  - all of a mapping that has `exp_avg`, `exp_avg_sq`, `max_exp_avg_sq`, `exp_avg_sq_row`,
 *    `exp_avg_sq_col`, `momentum_buffer`, `square_avg`, `acc_delta` or `exp_inf`; and of flat keys,
 *    all that begin as that one does ("state.0.step" beside "state.0.exp_avg").
 *  - all of a mapping that has `base_optimizer_state`, `single_partition_of_fp32_groups`,
 *    `fp32_flat_groups`, `fp32_groups_flat` (DeepSpeed), `fp32_from_fp16_params` or
 *    `fp32_from_fp16` (Megatron, Apex).
 *
 * The numbers are cast while the result is saved; ckpt_cast_losses() then says which of them DTYPE
 * cannot hold. CKPT_E_ARG if there is no such cast, or if it is
 * one to integers without CKPT_CAST_TO_INTEGER; CKPT_E_UNSUPPORTED if only some of the tensors that
 * share a storage are to be cast. CKPT_REASON_QUANTIZED: a configuration, metadata or names say that
 * weights are quantized, and ckpt_quant_open() fails; OPTIONS->as "plain" casts all.
 */
CKPT_API int ckpt_cast(const struct ckpt_model *model, const char *dtype,
		       const struct ckpt_cast_options *options, struct ckpt_model **out,
		       struct ckpt_edit_report *report, struct ckpt_error *err);

/* Numbers that casts could not keep, of one kind. */
struct ckpt_cast_loss {
	uint64_t count;
	double first;	   /* the first of them, as it was; 0 if there is none */
	const char *dtype; /* what that was cast to, "float16"; NULL if there is none */
	char place[480];   /* where it is, escaped: "'model.fc.weight'[3, 17]" */
};

struct ckpt_cast_report {
	size_t size;
	/*
	 * A finite number became infinite; where the target has no infinity, any became NaN or the
	 * largest that there is. Of integers: it did not fit.
	 */
	struct ckpt_cast_loss overflow;
	struct ckpt_cast_loss underflow; /* a number became 0, of a floating target */
};
#define CKPT_CAST_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_cast_report) \
	}

/*
 * What the casts that made MODEL have lost of the numbers that were read so far, each counted once;
 * after ckpt_save(), of those that it wrote. (A reader that jumps to and fro in very many pieces
 * may count some again.) Names are those at the time of the cast. What CKPT_SAVE_CHECK_CASTS
 * refuses is here, too. Returns 0, CKPT_E_ARG, CKPT_E_NOMEM.
 */
CKPT_API int ckpt_cast_losses(const struct ckpt_model *model, struct ckpt_cast_report *report,
			      struct ckpt_error *err);

/*
 * Give every tensor only the part of its storage that it shows: a range of it, or, where it has
 * gaps and shares with no other tensor, its items as Tensor.clone() arranges them. Tensors that
 * have bytes in common keep them in common. A storage that is itself a value of the checkpoint
 * stays whole, and so does that of a compressed record.
 */
CKPT_API int ckpt_compact(const struct ckpt_model *model, struct ckpt_model **out,
			  struct ckpt_edit_report *report, struct ckpt_error *err);

enum ckpt_average_flags {
	/* the result is made of the last checkpoint, and has all else from it, equal or not */
	CKPT_AVERAGE_OTHERS_LAST = 1 << 0,
	CKPT_AVERAGE_EMA = 1 << 1, /* an exponential moving average, by DECAY */
};

struct ckpt_average_options {
	size_t size;
	unsigned flags;
	uint32_t threads;	 /* that compare at once; see "Threads" in ckpt.h */
	const char *const *only; /* patterns over names of tensors, or NULL */
	size_t only_count;
	const double *weights;	    /* one for each checkpoint; NULL: 1 for each */
	double decay;		    /* from 0 on, below 1 */
	const volatile int *cancel; /* not 0: it ends; see "Threads" in ckpt.h */
	/* bytes of the pair of checkpoints that is compared; may be NULL */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	const char *as; /* as in ckpt_cast_options: "plain" averages parts of quantized weights, too */
};
#define CKPT_AVERAGE_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_average_options) \
	}

/*
 * The mean of COUNT checkpoints, of any formats: of each floating or complex tensor, or those that ONLY chooses, number by
 * number, in the order of MODELS. Of N numbers x in double:
 *
 *	(w1*x1 + w2*x2 + ... + wN*xN) / (w1 + w2 + ... + wN)	WEIGHTS
 *	e = x1, then e = DECAY*e + (1-DECAY)*xi for i = 2 ... N	CKPT_AVERAGE_EMA
 *
 * summed from the left and rounded once, to the nearest, ties to even, to the dtype of the tensor. The same tensors must have one shape and dtype in all.
 * All else must be equal, as ckpt_diff() has it, but for devices: it is read and compared here, and the numbers are averaged
 * while the result is saved. Where checksums are recorded they are compared then. Tensors that share a storage are averaged
 * once and still share it.
 *
 * The result is made of the first of MODELS, or the last with CKPT_AVERAGE_OTHERS_LAST, and is saved in the format of
 * that. It keeps all of them open; they may be closed.
 *
 * CKPT_E_UNSUPPORTED if they do not match, with the first difference, how many there are, and a reason: CKPT_REASON_NOT_ALIKE, CKPT_REASON_NOT_EQUAL,
 * CKPT_REASON_OTHER_LAYOUT; CKPT_REASON_QUANTIZED if a tensor is a part of a quantized weight, as ckpt_quant_open() finds it in any of MODELS:
 * ckpt_dequantize() makes numbers of it. CKPT_E_NOTFOUND if no tensor is to be averaged; CKPT_E_ARG for weights that have no sum. Else as ckpt_diff().
 */
CKPT_API int ckpt_average(const struct ckpt_model *const *models, size_t count,
			  const struct ckpt_average_options *options, struct ckpt_model **out,
			  struct ckpt_edit_report *report, struct ckpt_error *err);

/* ---- safety ---- */

/*
 * Make a checkpoint load with torch.load(weights_only=True) of torch 2.6 and later. Objects that
 * are no more than their attributes (argparse.Namespace, dataclasses and others) and omegaconf
 * containers become dicts; numpy scalars and arrays become numbers and tensors; a defaultdict
 * becomes a dict, a deque a list, a frozenset a set; paths, dates, decimals and references to
 * classes become strings; modules become their state dicts. Nothing is called. The report lists
 * every replacement.
 *
 * CKPT_E_UNSUPPORTED, with the place, for what only a call could tell. (A tuple that contains
 * itself stays, and torch refuses it.)
 */
CKPT_API int ckpt_sanitize(const struct ckpt_model *model, struct ckpt_model **out,
			   struct ckpt_edit_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
