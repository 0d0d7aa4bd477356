/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: opening one, listing its tensors, walking through everything else it holds, and
 * asking about its file. Start with ckpt_open(); edits are in <ckpt/edit.h>, values of tensors in
 * <ckpt/read.h>, output in <ckpt/save.h>.
 *
 * What must stay true: a model never changes after it is opened; an edit makes a new one. Tensor
 * bytes stay in the file, which is kept open, until somebody asks for them. Nothing in a file is
 * ever executed.
 */
#ifndef CKPT_MODEL_H
#define CKPT_MODEL_H

#include <ckpt/error.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A checkpoint: named tensors, the storages behind them, and everything else that was saved.
 *
 * Several threads may call any function on one model, as long as none of them closes it.
 */
struct ckpt_model;

/*
 * Open the checkpoint at PATH. It may be
 *
 *   - a file of torch.save: the zip form, the legacy stream (torch up to 1.5) or the tar archive
 *     (torch up to 0.1.9);
 *   - a file of TorchScript, torch.package or torch.export, or a mobile model: only what
 *     ckpt_state_dict() or ckpt_extract() takes out of these can be saved;
 *   - a safetensors file;
 *   - a directory of shards that torch.distributed.checkpoint (DCP) wrote: the index and all values
 *     except tensors are read now, and errors in tensors show when they are needed;
 *   - a Hugging Face shard set, by its directory or its index: the metadata of all files is read
 *     and compared with the index, and it is CKPT_E_FORMAT if a file is missing or a tensor is not
 *     where the index says;
 *   - ARCHIVE::NAME, a file inside a zip archive (<ckpt/container.h>).
 *
 * The caller owns *OUT and gives it to ckpt_close(). Returns 0; CKPT_E_IO; CKPT_E_UNSUPPORTED if it
 * is something else, which the text names (a Git LFS pointer, an HTML page ...); CKPT_E_FORMAT if
 * it is damaged, with the record and the offset; CKPT_E_LIMIT if it asks for more memory than a
 * file of its size can need; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_open(const char *path, struct ckpt_model **out, struct ckpt_error *err);

/*
 * CKPT_OPEN_BRIEF: the model will only be listed, compared, or saved as a torch.save file. Then
 * little more than the name of each tensor of a torch.save file is kept, which halves time and
 * memory if there are very many. Everything else still works, but opens the file once more, which
 * may fail as ckpt_open() does.
 */
enum ckpt_open_flags {
	CKPT_OPEN_BRIEF = 1 << 0,
};

/* ckpt_open(), with FLAGS of enum ckpt_open_flags. */
CKPT_API int ckpt_open_with(const char *path, unsigned flags, struct ckpt_model **out,
			    struct ckpt_error *err);

/* The same for LEN bytes in memory, which must outlive the model. */
CKPT_API int ckpt_open_memory(const void *bytes, size_t len, struct ckpt_model **out,
			      struct ckpt_error *err);

/* Bytes that the caller reads: an object store, a file of another program, a part of something. */
struct ckpt_reader_options {
	size_t size;
	/*
	 * Copy LEN bytes at OFFSET to BUF; both are within NBYTES. Called by several threads at
	 * once. Returns 0 or an errno number (EIO).
	 */
	int (*read)(void *ctx, uint64_t offset, void *buf, size_t len);
	void (*close)(void *ctx); /* when nobody needs it any more; NULL: nothing to do */
	void *ctx;
	uint64_t nbytes; /* of all of it; it does not change */
	/* the caller promises that reading anywhere is as fast as going on where it was */
	bool random;
	uint8_t reserved[7];
};
#define CKPT_READER_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_reader_options), .random = true \
	}

/*
 * ckpt_open() of what READER reads: a single file. `close` is called once, also on failure unless
 * that is CKPT_E_ARG. The
 * model cannot be saved in place, has no path, and is opened again by no function, as
 * CKPT_OPEN_BRIEF would need.
 */
CKPT_API int ckpt_open_reader(const struct ckpt_reader_options *reader, struct ckpt_model **out,
			      struct ckpt_error *err);

/*
 * Copy what comes out of FD (a pipe, a socket), to its end, to an unnamed file in FOLDER, and set
 * *OUT to that file. A checkpoint is read at many places, and a pipe is not: ckpt_open() takes
 * "/proc/self/fd/N" for FD N, and "/dev/stdin" once *OUT has taken the place of standard input. The
 * space is free when *OUT is closed. Nobody else finds the file; its mode is 0666, so that output
 * made of it is as public as the umask lets it be.
 *
 * Returns 0; CKPT_E_LIMIT if there are more than LIMIT bytes; CKPT_E_IO; CKPT_E_NOMEM; then *OUT is
 * -1.
 */
CKPT_API int ckpt_spool(int fd, const char *folder, uint64_t limit, int *out,
			struct ckpt_error *err);

/* NULL is allowed. */
CKPT_API void ckpt_close(struct ckpt_model *model);

/* ---- tensors ---- */

enum ckpt_tensor_flags {
	CKPT_TENSOR_REQUIRES_GRAD = 1 << 0,
	CKPT_TENSOR_PARAMETER = 1 << 1, /* torch.nn.Parameter */
	CKPT_TENSOR_CONJ = 1 << 2,	/* the values are the conjugates of what is stored */
	CKPT_TENSOR_NEG = 1 << 3,	/* ... negated */
	/*
	 * The file is of a big-endian machine, and its numbers are of another width than those of the storage: of a dtype without a storage
	 * class (uint16, complex32 ...), or a view. ckpt_array_open() turns them around by their dtype; the bytes of the storage are as
	 * torch.load has them, which turns around what the storage says, and has wrong numbers.
	 */
	CKPT_TENSOR_TURNED_ALONE = 1 << 4,
};

/* One tensor. Strings and arrays are borrowed from the model. */
struct ckpt_tensor_info {
	size_t size; /* sizeof(struct ckpt_tensor_info), set by the caller */
	/*
	 * Path: dict keys and positions joined by '.', inside a module as its state_dict() names
	 * it. These are the raw bytes of the file, with U+2400 in place of a zero byte.
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
	/* bytes of that storage; other tensors may share it, and this one may show only a part */
	uint64_t storage_nbytes;
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

/*
 * List the tensors now. Else this happens when they are first asked for: of a file with very many
 * alike, and after an edit. Returns 0 or CKPT_E_NOMEM; after 0, ckpt_tensor_count() is the count
 * until the model is edited again.
 */
CKPT_API int ckpt_list_tensors(const struct ckpt_model *model, struct ckpt_error *err);

/* Also 0 if there was not enough memory to list them: where that matters, ask ckpt_list_tensors(). */
CKPT_API uint64_t ckpt_tensor_count(const struct ckpt_model *model);

/*
 * Describe tensor I, 0 <= I < ckpt_tensor_count(), in the order of the file. A tensor with several
 * names is listed under each. Returns 0 or CKPT_E_ARG.
 */
CKPT_API int ckpt_tensor_get(const struct ckpt_model *model, uint64_t i,
			     struct ckpt_tensor_info *out);

/*
 * The number of storages in the file, also of those whose tensors an edit dropped, and the sum of
 * their bytes. The `storage` of every tensor is below the count.
 */
CKPT_API uint64_t ckpt_storage_count(const struct ckpt_model *model);
CKPT_API uint64_t ckpt_storage_bytes(const struct ckpt_model *model);

/* ---- everything else ---- */

enum ckpt_item_kind {
	CKPT_ITEM_TENSOR,
	CKPT_ITEM_CONTAINER, /* dict, list, tuple, set, or an object that holds others */
	CKPT_ITEM_VALUE,     /* number, text, bytes, None, class; numpy array or scalar ... */
};

/* One value that ckpt_walk() visits. Strings are valid during the call. */
struct ckpt_item {
	size_t size;
	const char *name; /* path, "" for the root; bytes as in ckpt_tensor_info */
	uint32_t depth;	  /* 0 for the root */
	enum ckpt_item_kind kind;
	const char *type; /* "dict", "OrderedDict", "int", "Namespace", ... escaped */
	const char *text; /* the value as repr() shows it, shortened and escaped */
	uint64_t count;	  /* items of a container; of an object without items, its attributes */
	bool mapping;	  /* a container with keys: a dict, an OrderedDict, a state dict */
	bool seen;	  /* a container that was walked before under another name */
	/* a container that is a torch.nn.Module or a TorchScript object: see ckpt_state_dict() */
	bool module;
	uint8_t reserved[5];
};

/*
 * Call VISIT for every value, depth first, in the order of the file. VISIT returns 1 to enter a
 * container, 0 to skip it, or a negative status to stop; that status is returned.
 */
CKPT_API int ckpt_walk(const struct ckpt_model *model,
		       int (*visit)(void *ctx, const struct ckpt_item *item), void *ctx,
		       struct ckpt_error *err);

/*
 * Call VISIT once, for the value called NAME: its path joined by dots ("model.fc.weight"), or the
 * exact form, which is never ambiguous and spells out every step: ["model"]["fc.weight"]. "" is
 * the root. Returns what VISIT returns if that is negative; CKPT_E_NOTFOUND; CKPT_E_ARG if NAME
 * fits two values, with the exact forms of both in the text.
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
	CKPT_FORMAT_NPZ, /* only written, like the next one */
	CKPT_FORMAT_NPY_FOLDER,
	CKPT_FORMAT_DCP,
	CKPT_FORMAT_HUGGING_FACE,
	CKPT_FORMAT_TORCH_CHECKPOINTING,
	CKPT_FORMAT_DEEPSPEED,
	CKPT_FORMAT_DCP_SAFETENSORS, /* safetensors shards that DCP wrote */
	CKPT_FORMAT_MEMORY,	     /* made by <ckpt/build.h> */
};

struct ckpt_file_info {
	size_t size;
	/* "torch zip", "safetensors", "DCP directory" ...: docs/json.md lists them */
	const char *format;
	const char *writer; /* which torch writes such records: "torch 2.7 or later" */
	/* the same in the form that ckpt_save() takes: "2.7"; "" if torch writes no such files */
	const char *profile;
	const char *archive_name; /* the folder inside the zip */
	const char *byteorder;	  /* "little", "big", or "" where the file does not say */
	uint64_t file_nbytes;
	uint64_t pickle_nbytes;
	uint64_t record_count;
	uint32_t pickle_protocol;
	uint32_t alignment;    /* of the records' data; 0: unaligned, repacked by another tool */
	bool has_crc;	       /* checksums are recorded */
	uint32_t compressed;   /* deflated storages: torch loads them, but not with mmap */
	uint32_t unreferenced; /* storage records that no tensor mentions */
	uint32_t foreign;      /* records that torch.save does not write */
	uint32_t file_count;   /* data files of a directory; 0: it is a single file */
	uint32_t version;      /* TorchScript: of its operators, from record 'version'; else 0 */
	/* the tensors belong to a program: ckpt_state_dict() takes what a checkpoint can hold */
	bool is_program;
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
	CKPT_RECORD_MARK,  /* version, byte order, and other small records of the writer */
	CKPT_RECORD_OTHER,
};

/* One record of an archive. */
struct ckpt_record {
	size_t size;
	/* without the archive's own folder; raw bytes of the file, valid during the call */
	const char *name;
	enum ckpt_record_kind kind;
	uint64_t nbytes; /* when unpacked */
	uint64_t stored; /* bytes in the file */
};

/*
 * Call VISIT for every record of the file, in the order of its directory; a negative status stops
 * and is returned. A file that is not an archive has none.
 */
CKPT_API int ckpt_each_record(const struct ckpt_model *model,
			      int (*visit)(void *ctx, const struct ckpt_record *record), void *ctx,
			      struct ckpt_error *err);

/*
 * Call VISIT for every pair of strings that the file stores beside its tensors (`__metadata__` of
 * safetensors), in the order of the file; a negative status stops and is returned. The strings are
 * UTF-8, end with a NUL, may contain NULs, and live as long as the model. An edited model has those
 * of the file. Other formats have none.
 */
CKPT_API int ckpt_each_metadata(const struct ckpt_model *model,
				int (*visit)(void *ctx, const char *key, size_t key_len,
					     const char *value, size_t value_len),
				void *ctx, struct ckpt_error *err);

/*
 * Call NOTE with one sentence, names in it escaped, for each oddity in the state of the files: data
 * files that are missing or too short, tensors whose chunks leave gaps, traces of a save that did
 * not finish. A sound checkpoint has none, or harmless ones. Reads only names, sizes and times.
 * Returns 0, CKPT_E_IO, CKPT_E_NOMEM.
 */
CKPT_API int ckpt_tell_state(const struct ckpt_model *model,
			     void (*note)(void *ctx, const char *text), void *ctx,
			     struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
