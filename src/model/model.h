/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_MODEL_H
#define CKPT_MODEL_MODEL_H

#include "base/strmap.h"
#include "pickle/decode.h"
#include "tensor/dtype.h"
#include "tensor/recipe.h"

#include <pthread.h>

struct ckpt_model;

/* Files from before 0.4 may have storages that are a part of another one. */
struct ckpt_storage_view {
	uint32_t root;	 /* number of the other */
	uint64_t offset; /* in elements */
};

enum { CKPT_MOST_STORAGE_KEY = 400 }; /* bytes */

/* The bytes behind one or more tensors. */
struct ckpt_storage {
	const char *key; /* as in the file: the record is data/KEY */
	enum ckpt_dtype dtype : 16;
	bool has_crc;
	/* DTYPE is that of its tensors, whatever their persistent ids and calls say */
	bool retyped;
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
	CKPT_KIND_SPARSE, /* LAYOUT tells which */
	CKPT_KIND_NESTED,
	CKPT_KIND_META,
	CKPT_KIND_NUMPY,   /* bytes are a numpy array inside the pickle */
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
	uint8_t kind;	  /* enum ckpt_tensor_kind */
	/*
	 * it is longer than CKPT_MOST_TENSOR_NAME: NAME is how it begins, and "...", and no other
	 * need differ
	 */
	bool name_is_cut;
	bool requires_grad, is_parameter, is_conj, is_neg;
	const uint64_t *shape, *stride; /* stride: NULL where there is none */
	uint64_t offset;		/* in elements */
	int64_t storage;		/* index, or -1 */
	const char *device, *layout;	/* layout: "sparse_coo", ... or NULL */
	const char *class_name;		/* "Parameter", "DTensor", ... or NULL for a plain one */
	const struct ckpt_value *local; /* DTensor: its local tensor; sparse: its values */
	/* a dict, or (dict or None, dict of slots), of a tensor that has some; or NULL */
	const struct ckpt_value *attributes;
};

/* A file that a model consists of, whole or in part. */
struct ckpt_model_file {
	const char *path;
	const struct ckpt_source *source; /* NULL: it was not opened, only looked at */
	uint64_t size, disk_bytes;	  /* the latter is less if it has holes */
	unsigned mode;			  /* who may read and write it: 0 to 0777 */
	bool has_identity;		  /* not if it is memory */
	dev_t dev;
	ino_t ino;
};

/* Not 0 ends it, and is returned. */
typedef int ckpt_model_visit_file(void *ctx, const struct ckpt_model_file *file);

/*
 * Everything a file said, immutable and shared by all models that were edited from it. The format
 * fills in what only it knows.
 */
struct ckpt_document {
	_Atomic unsigned refs;
	struct ckpt_source *source; /* owned reference */
	struct ckpt_pickle pickle;  /* owned */
	uint8_t *pickle_bytes;	    /* owned; the pickle's strings point into it */
	size_t pickle_len;
	bool of_cpp; /* torch's C++ pickler wrote it, or may have: see model/cpp_calls.h */
	struct ckpt_storage *storages; /* malloc, in order of first mention */
	uint32_t storage_count, storage_cap;
	struct ckpt_strmap storage_by_key; /* where edits can be made */
	/* it has all keys; else they are the numbers of the storages, as text */
	bool keys_indexed;
	bool keys_are_numbers;		   /* they are, whatever it has */
	void *container; /* the format's own state, e.g. the zip index */
	void (*free_container)(void *container);
	const struct ckpt_format *format;
	/* A checkpoint of many files: SOURCE is one of them; where they are. NULL: the only one. */
	const char *path;
	char *inner_path; /* owned: of a file inside of an archive, as it was named; NULL: a file */
	int (*each_file)(const struct ckpt_document *doc, ckpt_model_visit_file *visit, void *ctx);
	/*
	 * Of programs, in which a state dict is one part: those parts. None: whatever the values
	 * are.
	 */
	struct ckpt_seq state_dicts;
	/*
	 * TorchScript: what the source of a class says, the document's; NULL: no memory. See
	 * model/module.h.
	 */
	const struct ckpt_class *(*class_of)(struct ckpt_document *doc,
					     const struct ckpt_global *cls);
	/*
	 * Of several pickles: the record that the value NAME came from, for errors; NULL: there is
	 * one.
	 */
	const char *(*record_of)(const char *name);
	bool ignores_checksums; /* see ckpt_ignore_checksums() */
	/* The same of what is not in the list of storages; NULL: all is. */
	void (*forget_checksums)(struct ckpt_document *doc);
	/* Where tensors are FOLDED: the file, read with none. */
	int (*read_whole)(struct ckpt_source *source, struct ckpt_model **out,
			  struct ckpt_error *err);
	bool big_endian; /* numbers in the records, which STORAGE_BYTES gives as they are */
	/* Where the bytes of a storage are in the file. */
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
	struct ckpt_storage *storages; /* the document's or BASE's, or malloc: own_storages */
	uint32_t storage_count;
	bool own_storages;
	uint8_t protocol;		    /* of the pickle; 0: the document's */
	const struct ckpt_value **replaced; /* malloc: by id, NULL where nothing was */
	uint32_t replaced_cap, next_id;
	struct ckpt_tensor *tensors; /* malloc, in the order of the file; see has_tensors */
	uint32_t tensor_count, tensor_cap;
	bool listed;
	pthread_mutex_t listing;
	struct ckpt_model *whole; /* owned: see ckpt_model_whole(); NULL: nobody asked yet */
	void *held; /* owned: what else the bytes of its storages need, or NULL */
	void (*free_held)(void *held);
	int (*held_files)(const void *held, ckpt_model_visit_file *visit, void *ctx); /* or NULL */
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
 * For all that looks into tensors, and does not know of FOLDED ones: *MODEL becomes one in which
 * there are none, which lives as long. Thread-safe. Who does know: the walk, the list of tensors,
 * descriptions, resave, diff, torch zip's writer.
 */
int ckpt_model_whole(const struct ckpt_model **model, struct ckpt_error *err);

/* Storages of its own, to be changed in place. Only while a model is being made. */
int ckpt_model_own_storages(struct ckpt_model *model, struct ckpt_error *err);
int ckpt_model_list_tensors(struct ckpt_model *model, struct ckpt_error *err);

/*
 * A key for a storage that an edit makes, which no storage of the file has; LETTER tells the edits
 * apart. NULL: no memory.
 */
const char *ckpt_model_new_key(struct ckpt_model *model, char letter);

/*
 * How to get the bytes of a storage: those in the file, with their recorded checksum, or what an
 * edit makes of them.
 */
int ckpt_model_storage_bytes(const struct ckpt_model *model, const struct ckpt_storage *storage,
			     struct ckpt_recipe *out, struct ckpt_error *err);

/* Makes the list where an edit left it out; false if that failed (memory). Thread-safe. */
bool ckpt_model_has_tensors(const struct ckpt_model *model);

void ckpt_document_unref(struct ckpt_document *doc);

/* For messages: the file, or the directory. NULL: memory. */
const char *ckpt_document_path(const struct ckpt_document *doc);

/*
 * All files that MODEL, or what it was edited from, takes values from: the one, all of a directory
 * with its index, what was joined to it. Some may be told twice.
 */
int ckpt_model_each_file(const struct ckpt_model *model, ckpt_model_visit_file *visit, void *ctx);

/* For those who tell their files. PATH NULL: the source's. */
int ckpt_model_visit_source(const struct ckpt_source *source, const char *path,
			    ckpt_model_visit_file *visit, void *ctx);

/* CKPT_E_CHANGED if one of them is not what it was when it was opened. */
int ckpt_model_check_unchanged(const struct ckpt_model *model, struct ckpt_error *err);

/*
 * What all of them take on disk, and *NBYTES: how long they are, which is more if they have holes.
 */
uint64_t ckpt_model_disk_bytes(const struct ckpt_model *model, uint64_t *nbytes);

/* Who may use what is made of it: those who may use all of its files. */
unsigned ckpt_model_mode(const struct ckpt_model *model);

/* The same of a folder: who may read a file may list it. */
unsigned ckpt_model_folder_mode(const struct ckpt_model *model);

/* Is the file, or the file that the link leads to, one of them? */
bool ckpt_model_has_file(const struct ckpt_model *model, const char *path);

/*
 * Does one of them lie in FOLDER, or below? *WHICH: the path it was opened by, valid as long as the
 * model.
 */
bool ckpt_model_has_file_in(const struct ckpt_model *model, const char *folder, const char **which);

/* What stands where V stood in the file. */
static inline const struct ckpt_value *ckpt_model_now(const struct ckpt_model *model,
						      const struct ckpt_value *v)
{
	if (v->id < model->replaced_cap && model->replaced[v->id])
		return model->replaced[v->id];
	return v;
}

/* Let WITH (same id) stand for what has its id. Only while a model is being made. */
int ckpt_model_replace(struct ckpt_model *model, const struct ckpt_value *with,
		       struct ckpt_error *err);

/* The same for any value WITH, in place of the one with ID. */
int ckpt_model_replace_id(struct ckpt_model *model, uint32_t id, const struct ckpt_value *with,
			  struct ckpt_error *err);

/* A new node of the model's own arena, with an id of its own. NULL: no memory. */
struct ckpt_value *ckpt_model_new_value(struct ckpt_model *model, uint8_t kind);
const struct ckpt_value *ckpt_model_new_str(struct ckpt_model *model, const char *text, size_t len);

/*
 * 1: V is a tensor, OUT is filled. 0: it is not. <0: it claims to be one and is malformed.
 * Storages must be known already.
 */
int ckpt_tensor_parse(const struct ckpt_model *model, const struct ckpt_value *v,
		      struct ckpt_arena *arena, struct ckpt_tensor *out, struct ckpt_error *err);

/*
 * The strided tensor whose items are what is stored of T: T itself, the values of a sparse one, the
 * local tensor of a wrapper; with the name of T. False: there is none.
 */
bool ckpt_tensor_stored(const struct ckpt_model *model, const struct ckpt_tensor *t,
			struct ckpt_arena *arena, struct ckpt_tensor *out);

/* torch.Size((2, 3)) -> (2, 3); V itself if it is no torch.Size. */
const struct ckpt_value *ckpt_value_unwrap_size(const struct ckpt_model *model,
						const struct ckpt_value *v);

/* Cheaper: does V look like a tensor, from the function that rebuilds it. */
bool ckpt_value_is_tensor(const struct ckpt_model *model, const struct ckpt_value *v);

/*
 * True of whatever is a torch.Tensor in Python: also of a class that rebuilds itself in a way of
 * its own, as nested tensors of layout jagged do.
 */
bool ckpt_value_is_tensor_object(const struct ckpt_model *model, const struct ckpt_value *v);

/* The key in a persistent id that names a storage; NULL: it names something else. */
const struct ckpt_value *ckpt_storage_key(const struct ckpt_value *persid);

/* What such an id says of its storage. Strings are copied to ARENA. */
int ckpt_storage_parse(const struct ckpt_value *persid, struct ckpt_arena *arena,
		       struct ckpt_storage *out, struct ckpt_error *err);

/*
 * The dtype that torch gives to storage number INDEX where PERSID names it: that of the first
 * mention, as the others share its bytes. Of an empty one, which is not shared, torch 2 makes a new
 * one of PERSID's own class each time (torch/serialization.py, load_tensor() of _load()).
 */
enum ckpt_dtype ckpt_storage_dtype(const struct ckpt_model *model, int64_t index,
				   const struct ckpt_value *persid);

/*
 * The storage that a persistent id names, or the one of a FOLDED tensor; -1 for ids of another
 * kind.
 */
static inline int64_t ckpt_storage_of(const struct ckpt_value *persid)
{
	if (persid->kind == CKPT_FOLDED)
		return (int64_t)persid->u.folded.meaning - 1;
	return (int64_t)persid->u.persid.meaning - 1;
}

#endif
