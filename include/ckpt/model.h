/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_MODEL_H
#define CKPT_MODEL_H

#include <ckpt/error.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A checkpoint: named tensors, the storages behind them and everything else that was saved. It is
 * never changed: edits make a new one. Bytes of tensors stay in the file until they are asked for;
 * the file is kept open. Nothing that a file contains is ever executed.
 *
 * All functions may be called from several threads on one model, as long as none closes it.
 */
struct ckpt_model;

/*
 * Open the file at PATH (torch.save's zip form, the legacy stream of torch up to 1.5, the tar archive of torch up to 0.1.9;
 * TorchScript, torch.package, torch.export and mobile models, of which only what ckpt_state_dict() or ckpt_extract() takes
 * out can be saved; safetensors), or the directory of shards that torch.distributed.checkpoint (DCP) wrote there, or a Hugging Face
 * shard set: its directory, or its index. ARCHIVE::NAME is a file inside of a zip archive (<ckpt/container.h>). Of a DCP directory the
 * index is read, and the values that are no tensors; what cannot be read of those shows when it is needed. Of a set the metadata of all
 * files are read and held against the index: CKPT_E_FORMAT if a file is missing, or a tensor is not where the index has it.
 *
 * *OUT is the caller's, to be given to ckpt_close(). Returns 0; CKPT_E_IO; CKPT_E_UNSUPPORTED if
 * it is something else, which the text names (Git LFS pointer, HTML page ...); CKPT_E_FORMAT if it is damaged, with the record and the offset; CKPT_E_LIMIT if it
 * asks for more memory than a file of its size can mean; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_open(const char *path, struct ckpt_model **out, struct ckpt_error *err);

/*
 * CKPT_OPEN_BRIEF: the model is to be listed, compared, or saved as a torch.save file, and no more. Of each tensor of a torch.save file little
 * more than its name is kept then, which with very many tensors takes half of the memory and of the time. Everything else can be done with it as well, but opens
 * the file once more, which may fail as ckpt_open() does.
 */
enum ckpt_open_flags {
	CKPT_OPEN_BRIEF = 1 << 0,
};

/* ckpt_open(), with FLAGS of enum ckpt_open_flags. */
CKPT_API int ckpt_open_with(const char *path, unsigned flags, struct ckpt_model **out, struct ckpt_error *err);

/* The same for LEN bytes in memory, which must outlive the model. */
CKPT_API int ckpt_open_memory(const void *bytes, size_t len, struct ckpt_model **out,
			      struct ckpt_error *err);

/* NULL is allowed. */
CKPT_API void ckpt_close(struct ckpt_model *model);

/* ---- tensors ---- */

enum ckpt_tensor_flags {
	CKPT_TENSOR_REQUIRES_GRAD = 1 << 0,
	CKPT_TENSOR_PARAMETER = 1 << 1, /* torch.nn.Parameter */
	CKPT_TENSOR_CONJ = 1 << 2,	/* the values are the conjugates of what is stored */
	CKPT_TENSOR_NEG = 1 << 3,	/* ... negated */
};

/* One tensor. Strings and arrays are borrowed from the model. */
struct ckpt_tensor_info {
	size_t size; /* sizeof(struct ckpt_tensor_info), set by the caller */
	/*
	 * path: dict keys and positions joined by '.', in a module as its state_dict() names it; raw bytes of the
	 * file, but U+2400 for a zero
	 */
	const char *name;
	const char *dtype; /* "float32", "bfloat16", ... as torch names it */
	uint32_t itemsize; /* bytes per item */
	uint32_t ndim;
	const uint64_t *shape;	/* NDIM numbers */
	const uint64_t *stride; /* in items; NULL for tensors without strides (sparse, nested) */
	uint64_t offset;	/* of the first item in the storage, in items */
	uint64_t numel;	 /* product of SHAPE; UINT64_MAX if it does not fit; 0 if uninitialized */
	uint64_t nbytes; /* numel * itemsize; 0 for meta tensors; stored values for sparse ones */
	int64_t storage; /* index of the storage, or -1: none or several */
	uint64_t
		storage_nbytes; /* size of that storage, which the tensor may share or only see a part of */
	const char *device;	/* "cpu", "cuda:0", "meta", ... as the file says */
	const char *layout;	/* "strided", "quantized", "sparse_coo", "nested", "wrapper", ... */
	const char *class_name; /* "Parameter", "DTensor", ...; NULL for a plain tensor */
	unsigned flags;		/* enum ckpt_tensor_flags */
	uint32_t reserved;
};
#define CKPT_TENSOR_INFO_INIT \
	{ \
		.size = sizeof(struct ckpt_tensor_info) \
	}

/* Also 0 if the list of an edited model could not be made for want of memory. */
CKPT_API uint64_t ckpt_tensor_count(const struct ckpt_model *model);

/*
 * Describe tensor I, 0 <= I < ckpt_tensor_count(), in the order of the file. A tensor that stands
 * under several names is listed under each. Returns 0 or CKPT_E_ARG.
 */
CKPT_API int ckpt_tensor_get(const struct ckpt_model *model, uint64_t i,
			     struct ckpt_tensor_info *out);

/*
 * Storages of the file, whether an edit dropped their tensors or not, and their bytes taken together.
 * The storages of all tensors are numbered below the count.
 */
CKPT_API uint64_t ckpt_storage_count(const struct ckpt_model *model);
CKPT_API uint64_t ckpt_storage_bytes(const struct ckpt_model *model);

/* ---- everything else ---- */

enum ckpt_item_kind {
	CKPT_ITEM_TENSOR,
	CKPT_ITEM_CONTAINER, /* dict, list, tuple, set, or an object that holds others */
	CKPT_ITEM_VALUE,     /* number, text, bytes, None, class; array or scalar of numpy ... */
};

/* One value on the way through a checkpoint. Strings are valid during the call. */
struct ckpt_item {
	size_t size;
	const char *name; /* path, "" for the root; bytes as in ckpt_tensor_info */
	uint32_t depth;	  /* 0 for the root */
	enum ckpt_item_kind kind;
	const char *type; /* "dict", "OrderedDict", "int", "Namespace", ... escaped */
	const char *text; /* the value as repr() shows it, shortened and escaped */
	uint64_t count;	  /* items of a container */
	bool mapping;	  /* a container with keys: a dict, an OrderedDict, a state dict */
	bool seen;	  /* a container that was walked before under another name */
	bool module; /* a container that is a torch.nn.Module, or an object of TorchScript: see ckpt_state_dict() */
	uint8_t reserved[5];
};

/*
 * Call VISIT for every value, depth first, in the order of the file. VISIT returns 1 to enter a
 * container, 0 to pass over it, a negative status to stop; that status is returned.
 */
CKPT_API int ckpt_walk(const struct ckpt_model *model,
		       int (*visit)(void *ctx, const struct ckpt_item *item), void *ctx,
		       struct ckpt_error *err);

/*
 * Call VISIT once, for the value called NAME: its path joined by dots ("model.fc.weight"), or the
 * exact form, which is never ambiguous and leaves nothing out: ["model"]["fc.weight"]. "" is the root. Returns what VISIT
 * returns if that is negative; CKPT_E_NOTFOUND; CKPT_E_ARG if NAME names two things, with the exact
 * forms of both in the text.
 */
CKPT_API int ckpt_find(const struct ckpt_model *model, const char *name,
		       int (*visit)(void *ctx, const struct ckpt_item *item), void *ctx,
		       struct ckpt_error *err);

/* ---- the file ---- */

enum ckpt_format_code {
	CKPT_FORMAT_TORCH_ZIP = 1,
	CKPT_FORMAT_TORCH_LEGACY,
	CKPT_FORMAT_TORCH_TAR,
	CKPT_FORMAT_TORCH_SCRIPT,
	CKPT_FORMAT_TORCH_MOBILE,
	CKPT_FORMAT_TORCH_EXPORT,
	CKPT_FORMAT_TORCH_PACKAGE,
	CKPT_FORMAT_SAFETENSORS,
	CKPT_FORMAT_NPZ,	/* written only, as the next one */
	CKPT_FORMAT_NPY_FOLDER,
	CKPT_FORMAT_DCP,
	CKPT_FORMAT_HUGGING_FACE,
	CKPT_FORMAT_TORCH_CHECKPOINTING,
	CKPT_FORMAT_DEEPSPEED,
	CKPT_FORMAT_DCP_SAFETENSORS, /* shards of safetensors that DCP wrote */
};

struct ckpt_file_info {
	size_t size;
	const char *
		format; /* "torch zip", "TorchScript", "torch export", "safetensors", "DCP directory" ...: docs/json.md lists them */
	const char *writer; /* which torch writes such records: "torch 2.7 or later" */
	const char *
		profile; /* the same as ckpt_save() takes it: "2.7"; "" if it writes no such files */
	const char *archive_name; /* the folder inside of the zip */
	const char *byteorder;	  /* "little", "big", or "" where the file does not say */
	uint64_t file_nbytes;
	uint64_t pickle_nbytes;
	uint64_t record_count;
	uint32_t pickle_protocol;
	uint32_t alignment;  /* of the records' data; 0: not aligned, packed anew by another tool */
	bool has_crc;	     /* checksums are recorded */
	uint32_t compressed; /* storages that are deflated: torch loads them, but not with mmap */
	uint32_t unreferenced; /* storage records that no tensor mentions */
	uint32_t foreign;      /* records that torch.save does not write */
	uint32_t file_count;   /* data files of a directory; 0: it is a single file */
	uint32_t version;      /* TorchScript: of its operators, the record 'version'; else 0 */
	bool is_program; /* tensors are a part of it: ckpt_state_dict() takes what a checkpoint can hold */
	enum ckpt_format_code format_code; /* the same as FORMAT */
	uint64_t dead_nbytes; /* of a torch.save file that was edited in place: what nothing refers to ... */
	uint64_t dead_on_disk; /* ... and is no hole: what CKPT_SAVE_FREE would give back */
};
#define CKPT_FILE_INFO_INIT \
	{ \
		.size = sizeof(struct ckpt_file_info) \
	}

/* Strings are borrowed from the model. Returns 0 or CKPT_E_ARG. */
CKPT_API int ckpt_file_get(const struct ckpt_model *model, struct ckpt_file_info *out);

enum ckpt_record_kind {
	CKPT_RECORD_STORAGE,  /* bytes of tensors */
	CKPT_RECORD_CONSTANT, /* bytes of tensors that code uses */
	CKPT_RECORD_PICKLE,
	CKPT_RECORD_CODE,  /* source text, or what belongs to it */
	CKPT_RECORD_EXTRA, /* files that a user added */
	CKPT_RECORD_MARK,  /* version, byte order, and what else writers leave */
	CKPT_RECORD_OTHER,
};

/* One record of an archive. */
struct ckpt_record {
	size_t size;
	const char *
		name; /* without the archive's own folder; raw bytes of the file, valid during the call */
	enum ckpt_record_kind kind;
	uint64_t nbytes; /* when unpacked */
	uint64_t stored; /* bytes in the file */
};

/*
 * Call VISIT for every record of the file, in the order of its directory; a negative status stops and is returned.
 * Files that are no archives have none.
 */
CKPT_API int ckpt_each_record(const struct ckpt_model *model,
			      int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			      struct ckpt_error *err);

/*
 * Call VISIT for every pair of texts that the file says of itself beside its tensors (`__metadata__` of safetensors), in the order of the
 * file; a negative status stops and is returned. Texts are UTF-8 with a NUL behind, may have NULs inside, and live as long as
 * the model; of an edited one they are those of the file. Other formats have none.
 */
CKPT_API int ckpt_each_metadata(const struct ckpt_model *model,
				int (*visit)(void *ctx, const char *key, size_t key_len,
					     const char *value, size_t value_len),
				void *ctx, struct ckpt_error *err);

/*
 * Call NOTE, one sentence a time, names in it escaped, for what is odd about the state that the files are in: data files that
 * are missing or too short, tensors that are not covered by their chunks, traces of a save that did not
 * finish. A sound checkpoint has none, or harmless ones. Reads names, sizes and times only. Returns 0,
 * CKPT_E_IO, CKPT_E_NOMEM.
 */
CKPT_API int ckpt_tell_state(const struct ckpt_model *model,
			     void (*note)(void *ctx, const char *text), void *ctx,
			     struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
