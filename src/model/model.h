/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents and models. A document is what the files of one checkpoint say: the decoded pickle, the
 * storages, where their bytes are. A model is a document with the edits on top of it. Formats make
 * documents, edits derive models, and everything else reads models.
 *
 * What must stay true: nothing changes once ckpt_model_new() or an edit has returned a model,
 * except caches and counts of references, so several threads may share it. A model keeps its
 * document and the model it was edited from, since its values point there. Values are compared by
 * id, which an edited value keeps: whoever looks at a value asks ckpt_model_now() first. Tensors
 * may be FOLDED, and a function that looks into tensors either knows that or calls
 * ckpt_model_whole().
 */
#ifndef CKPT_MODEL_MODEL_H
#define CKPT_MODEL_MODEL_H

#include "base/strmap.h"
#include "pickle/decode.h"
#include "tensor/dtype.h"
#include "tensor/recipe.h"

#include <pthread.h>

struct ckpt_model;

/* Files of torch before 0.4 may have storages that are a part of another one. */
struct ckpt_storage_view {
	uint32_t root;	 /* number of the other one */
	uint64_t offset; /* in elements */
};

enum { CKPT_MOST_STORAGE_KEY = 400 }; /* bytes */

/* The bytes behind one or more tensors. */
struct ckpt_storage {
	const char *key; /* as in the file: the record is data/KEY */
	enum ckpt_dtype dtype : 16;
	bool has_crc : 1;
	/* DTYPE is that of its tensors, even if their persistent ids and calls say otherwise */
	bool retyped : 1;
	bool is_cut : 1; /* its record is longer than NBYTES */
	uint32_t crc32;
	uint64_t numel, nbytes;		      /* numel: in units of DTYPE */
	const char *location;		      /* device tag, as in the file */
	void *record;			      /* the format's own entry for it */
	const struct ckpt_storage_view *view; /* NULL: it has bytes of its own */
	const struct ckpt_recipe *made; /* bytes that an edit makes; NULL: those of the record */
};

enum ckpt_tensor_kind {
	CKPT_KIND_STRIDED,
	CKPT_KIND_QUANTIZED,
	CKPT_KIND_SPARSE, /* LAYOUT says which */
	CKPT_KIND_NESTED,
	CKPT_KIND_META,
	CKPT_KIND_NUMPY,   /* its bytes are a numpy array inside the pickle */
	CKPT_KIND_WRAPPER, /* DTensor and other wrapper subclasses */
	CKPT_KIND_UNINITIALIZED,
};

enum { CKPT_MOST_DIMS = 64 };

enum { CKPT_MOST_TENSOR_NAME = 16384 }; /* bytes of a name that are kept */

/* What a rebuild call means. Strings and arrays live in the arena given to the parser. */
struct ckpt_tensor {
	const char *name; /* path in the checkpoint; NULL for inner tensors */
	const struct ckpt_value *value;
	enum ckpt_dtype dtype;
	uint32_t ndim;
	uint8_t kind; /* enum ckpt_tensor_kind */
	/*
	 * The name is longer than CKPT_MOST_TENSOR_NAME: NAME is its beginning and "...", and may
	 * be the same as that of another tensor.
	 */
	bool name_is_cut;
	bool requires_grad, is_parameter, is_conj, is_neg;
	const uint64_t *shape, *stride; /* stride: NULL where there is none */
	uint64_t offset;		/* in elements */
	int64_t storage;		/* index, or -1 */
	const char *device, *layout;	/* layout: "sparse_coo", ... or NULL */
	const char *class_name;		/* "Parameter", "DTensor", ... or NULL for a plain one */
	const struct ckpt_value *local; /* DTensor: its local tensor; sparse: its values */
	/* a dict, or a tuple (dict or None, dict of slots); NULL: it has none */
	const struct ckpt_value *attributes;
};

/* A file that a model consists of, whole or in part. */
struct ckpt_model_file {
	const char *path;
	const struct ckpt_source *source; /* NULL: it was not opened, only found */
	uint64_t size, disk_bytes;	  /* the latter is less if it has holes */
	unsigned mode;			  /* who may read and write it: 0 to 0777 */
	bool has_identity;		  /* not if it is memory */
	dev_t dev;
	ino_t ino;
};

/* A result other than 0 ends the visit and is returned. */
typedef int ckpt_model_visit_file(void *ctx, const struct ckpt_model_file *file);

/*
 * Everything that is in a file, immutable and shared by all models that were edited from it. The
 * format fills in what only it knows.
 */
struct ckpt_document {
	_Atomic unsigned refs;
	struct ckpt_source *source; /* owned reference */
	struct ckpt_pickle pickle;  /* owned */
	uint8_t *pickle_bytes;	    /* owned; the pickle's strings point into it */
	size_t pickle_len;
	bool of_objects; /* built of objects in memory, as <ckpt/build.h> does it: no load made them */
	bool of_cpp;	 /* torch's C++ pickler wrote it, or may have: see model/cpp_calls.h */
	struct ckpt_storage *storages; /* malloc, in order of first mention */
	uint32_t storage_count, storage_cap;
	struct ckpt_strmap storage_by_key; /* if edits can be made */
	/* STORAGE_BY_KEY has all keys; else the keys are the numbers of the storages, as text */
	bool keys_indexed;
	bool keys_are_numbers; /* they are, also if STORAGE_BY_KEY has them */
	void *container;       /* the format's own state, e.g. the zip index */
	void (*free_container)(void *container);
	const struct ckpt_format *format;
	/* Of a checkpoint of many files, one of which is SOURCE: the directory. Else NULL. */
	const char *path;
	char *inner_path; /* owned: ARCHIVE::NAME, as it was given; NULL: it is a plain file */
	int (*each_file)(const struct ckpt_document *doc, ckpt_model_visit_file *visit, void *ctx);
	/* The state dicts of programs, which have other parts, too. Empty for all other files. */
	struct ckpt_seq state_dicts;
	/*
	 * TorchScript: what the source of a class says; the document owns it. NULL: no memory. See
	 * model/module.h.
	 */
	const struct ckpt_class *(*class_of)(struct ckpt_document *doc,
					     const struct ckpt_global *cls);
	/*
	 * If there are several pickles: the record that the value NAME came from, for errors.
	 * Else NULL.
	 */
	const char *(*record_of)(const char *name);
	bool ignores_checksums; /* see ckpt_ignore_checksums() */
	/* The same for bytes outside of the list of storages; NULL: there are none. */
	void (*forget_checksums)(struct ckpt_document *doc);
	/* If tensors are FOLDED: read the file again, without folding. */
	int (*read_whole)(struct ckpt_source *source, struct ckpt_model **out,
			  struct ckpt_error *err);
	unsigned withheld; /* bits that the mode of no new file of it has; see ckpt_build_has_bytes_of() */
	bool big_endian; /* numbers in the records, which STORAGE_BYTES gives as they are */
	/* How to get the bytes of a storage from the file. */
	int (*storage_bytes)(struct ckpt_document *doc, const struct ckpt_storage *storage,
			     struct ckpt_recipe *out, struct ckpt_error *err);
};

/*
 * A checkpoint: a document and the edits on top of it. An edited value keeps its id; REPLACED says
 * what stands in its place. Nothing below changes once the model is made.
 */
struct ckpt_model {
	_Atomic unsigned refs;
	struct ckpt_document *doc;     /* owned reference */
	struct ckpt_model *base;       /* owned reference: what this one was edited from, or NULL */
	struct ckpt_arena *arena;      /* owned: edits, tensor list, names */
	const struct ckpt_value *root; /* before replacement */
	struct ckpt_storage *storages; /* the document's or BASE's; malloc if own_storages */
	uint32_t storage_count;
	uint32_t storage_cap; /* if own_storages */
	bool own_storages;
	uint8_t protocol;		    /* of the pickle; 0: the document's */
	const struct ckpt_value **replaced; /* malloc: by id, NULL where nothing was replaced */
	uint32_t replaced_cap, next_id;
	struct ckpt_tensor *tensors; /* malloc, in the order of the file; see has_tensors */
	uint32_t tensor_count, tensor_cap;
	bool listed;
	pthread_mutex_t listing;
	uint32_t *tensor_of_id; /* malloc: by id of a value, 1 + its tensor; NULL: not asked for yet */
	struct ckpt_model *whole; /* owned: see ckpt_model_whole(); NULL: not needed yet */
	void *held;		  /* owned: what the bytes of its storages need besides, or NULL */
	void (*free_held)(void *held);
	int (*held_files)(const void *held, ckpt_model_visit_file *visit, void *ctx); /* or NULL */
	struct ckpt_storage_cast *casts; /* arena; see model/casts.h */
	/* keys of the file's metadata that say nothing of it any more: sorted; an arena's, of this one or a base */
	const char *const *stale_metadata;
	uint32_t stale_metadata_count;
};

/*
 * A document over SOURCE with one reference, and a container of SIZE zero bytes, which
 * FREE_CONTAINER clears and frees with it. NULL: no memory.
 */
struct ckpt_document *ckpt_document_new(struct ckpt_source *source,
					const struct ckpt_format *format, size_t size,
					void (*free_container)(void *container));

/* Take over DOC and list storages and tensors. On failure DOC is released. */
int ckpt_model_new(struct ckpt_document *doc, struct ckpt_model **out, struct ckpt_error *err);

/*
 * A model over the same document with the same replacements, tensors not listed yet. It keeps FROM
 * alive, whose values it shows.
 */
int ckpt_model_derive(const struct ckpt_model *from, struct ckpt_model **out,
		      struct ckpt_error *err);

/*
 * For functions that look into tensors and do not know FOLDED ones: *MODEL becomes one without any,
 * which lives as long. Thread-safe. The walk, the list of tensors, descriptions, resave, diff and
 * the writer of torch zip files know FOLDED tensors.
 */
int ckpt_model_whole(const struct ckpt_model **model, struct ckpt_error *err);

/* Copy the storages, so that they can be changed in place. Only while a model is being made. */
int ckpt_model_own_storages(struct ckpt_model *model, struct ckpt_error *err);

/*
 * A new storage, all zero, at the end of the model's own ones, which may move. NULL: no memory.
 */
struct ckpt_storage *ckpt_model_add_storage(struct ckpt_model *model);

int ckpt_model_list_tensors(struct ckpt_model *model, struct ckpt_error *err);

/* What listing them would find wrong, without a list: that may not be needed. */
int ckpt_model_check_tensors(const struct ckpt_model *model, struct ckpt_error *err);

/* What a model's arena may take, beside 64 bytes for each of the pickle. */
enum { CKPT_MODEL_BUDGET_BASE = 64 << 20 };

/*
 * A key, for a storage that an edit makes, that no storage of the file has; edits differ in LETTER.
 * NULL: no memory.
 */
const char *ckpt_model_new_key(struct ckpt_model *model, char letter);

/*
 * How to get the bytes of a storage: those in the file, with their recorded checksum, or what an
 * edit makes of them.
 */
int ckpt_model_storage_bytes(const struct ckpt_model *model, const struct ckpt_storage *storage,
			     struct ckpt_recipe *out, struct ckpt_error *err);

/* Lists the tensors if an edit has not done so. False: no memory. Thread-safe. */
bool ckpt_model_has_tensors(const struct ckpt_model *model);

/*
 * Which one of the list V, as edited, is: the first of its names. CKPT_E_NOTFOUND: none. Thread-safe.
 */
int ckpt_model_tensor_of(const struct ckpt_model *model, const struct ckpt_value *v,
			 uint32_t *index, struct ckpt_error *err);

void ckpt_document_unref(struct ckpt_document *doc);

/* For messages: the file, or the directory. NULL: it is in memory. */
const char *ckpt_document_path(const struct ckpt_document *doc);

/*
 * Visit all files that MODEL, or what it was edited from, takes values from: a single file, all of
 * a directory with its index, and what was joined to it. Some may be visited twice.
 */
int ckpt_model_each_file(const struct ckpt_model *model, ckpt_model_visit_file *visit, void *ctx);

/* For implementations of each_file: visit the file of SOURCE. PATH NULL: the source's. */
int ckpt_model_visit_source(const struct ckpt_source *source, const char *path,
			    ckpt_model_visit_file *visit, void *ctx);

/* CKPT_E_CHANGED if one of them is not what it was when it was opened. */
int ckpt_model_check_unchanged(const struct ckpt_model *model, struct ckpt_error *err);

/* What all of them take on disk, and *NBYTES: their sizes, which are more if they have holes. */
uint64_t ckpt_model_disk_bytes(const struct ckpt_model *model, uint64_t *nbytes);

/* The mode of output: for those who may use all of its files. */
unsigned ckpt_model_mode(const struct ckpt_model *model);

/* The same for a folder: those who may read a file may list the folder. */
unsigned ckpt_model_folder_mode(const struct ckpt_model *model);

/* Is PATH, or the file that this link leads to, one of them? */
bool ckpt_model_has_file(const struct ckpt_model *model, const char *path);

/*
 * Is one of them in FOLDER, or below it? *WHICH: the path it was opened by, valid as long as the
 * model.
 */
bool ckpt_model_has_file_in(const struct ckpt_model *model, const char *folder, const char **which);

/* What stands in the place of V, or V itself if no edit replaced it. */
static inline const struct ckpt_value *ckpt_model_now(const struct ckpt_model *model,
						      const struct ckpt_value *v)
{
	if (v->id < model->replaced_cap && model->replaced[v->id])
		return model->replaced[v->id];
	return v;
}

/* Replace the value that has the id of WITH. Only while a model is being made. */
int ckpt_model_replace(struct ckpt_model *model, const struct ckpt_value *with,
		       struct ckpt_error *err);

/* Replace the value with ID by WITH, which may have any id. */
int ckpt_model_replace_id(struct ckpt_model *model, uint32_t id, const struct ckpt_value *with,
			  struct ckpt_error *err);

/* A new value in the model's own arena, with a new id. NULL: no memory. */
struct ckpt_value *ckpt_model_new_value(struct ckpt_model *model, uint8_t kind);
const struct ckpt_value *ckpt_model_new_str(struct ckpt_model *model, const char *text, size_t len);

/*
 * 1: V is a tensor, and OUT is filled. 0: it is not. <0: it claims to be one and is malformed. The
 * storages must be registered already.
 */
int ckpt_tensor_parse(const struct ckpt_model *model, const struct ckpt_value *v,
		      struct ckpt_arena *arena, struct ckpt_tensor *out, struct ckpt_error *err);

/*
 * The strided tensor that holds what is stored of T: T itself, the values of a sparse one, the
 * local tensor of a wrapper; with the name of T. False: there is none.
 */
bool ckpt_tensor_stored(const struct ckpt_model *model, const struct ckpt_tensor *t,
			struct ckpt_arena *arena, struct ckpt_tensor *out);

/* torch.Size((2, 3)) -> (2, 3); V itself if it is not a torch.Size. */
const struct ckpt_value *ckpt_value_unwrap_size(const struct ckpt_model *model,
						const struct ckpt_value *v);

/* Is V a tensor, judging by the function that rebuilds it? Cheaper than ckpt_tensor_parse(). */
bool ckpt_value_is_tensor(const struct ckpt_model *model, const struct ckpt_value *v);

/*
 * Is V a torch.Tensor in Python? That includes classes that rebuild themselves in their own way, as
 * nested tensors of layout jagged do.
 */
bool ckpt_value_is_tensor_object(const struct ckpt_model *model, const struct ckpt_value *v);

/* The key in a persistent id that names a storage; NULL: it names something else. */
const struct ckpt_value *ckpt_storage_key(const struct ckpt_value *persid);

/* What such an id says about its storage. Strings are copied to ARENA. */
int ckpt_storage_parse(const struct ckpt_value *persid, struct ckpt_arena *arena,
		       struct ckpt_storage *out, struct ckpt_error *err);

/*
 * The dtype that torch gives to storage number INDEX where PERSID names it: that of the first
 * mention, since the others share its bytes. An empty storage is not shared: torch 2 makes a new
 * one of PERSID's own class each time (torch/serialization.py, load_tensor() of _load()).
 */
enum ckpt_dtype ckpt_storage_dtype(const struct ckpt_model *model, int64_t index,
				   const struct ckpt_value *persid);

/*
 * The index of the storage that a persistent id names, or of that of a FOLDED tensor; -1 for ids of
 * another kind.
 */
static inline int64_t ckpt_storage_of(const struct ckpt_value *persid)
{
	if (persid->kind == CKPT_FOLDED)
		return (int64_t)persid->u.folded.meaning - 1;
	return (int64_t)persid->u.persid.meaning - 1;
}

#endif
