/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output: a model becomes a new file or directory (ckpt_save()), or the file it came from takes it
 * over (ckpt_save_in_place()).
 *
 * What must stay true: output gets its name only when it is complete and synced. ckpt_save() never
 * touches its input, and no file of the input may be the output. No byte of a tensor changes
 * unnoticed: a recorded checksum is carried along or compared, unless the caller gave that up with
 * ckpt_ignore_checksums().
 */
#ifndef CKPT_SAVE_H
#define CKPT_SAVE_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ckpt_save_flags {
	/*
	 * Replace an existing file and keep its mode; a link itself is replaced. A directory is
	 * replaced only if every file in it is of a kind that such output consists of; otherwise
	 * it is CKPT_E_OUTPUT with the name of one that is not.
	 */
	CKPT_SAVE_REPLACE = 1 << 0,
	CKPT_SAVE_NO_SYNC = 1 << 1, /* leave writing back to the system, as cp does */
	/*
	 * Write what torch.load followed by torch.save would: protocol 2, only records that torch
	 * knows, and, unless the options below say otherwise, alignment 64 and checksums. Without
	 * it the protocol, records, alignment and checksums stay as in the input. A big-endian file
	 * becomes a little-endian one.
	 */
	CKPT_SAVE_CANONICAL = 1 << 2,
	CKPT_SAVE_DRY_RUN = 1 << 3, /* do everything but write */
	/*
	 * An edited directory gets hard links to the input's data files instead of copies. A later
	 * save into either directory destroys both: torch truncates data files where they are.
	 */
	CKPT_SAVE_HARD_LINK = 1 << 4,
	/* leave out what the format cannot hold; otherwise that is CKPT_E_UNSUPPORTED */
	CKPT_SAVE_DROP_OTHERS = 1 << 5,
	/*
	 * ckpt_save_in_place() of a torch.save file: give the blocks of dead bytes back to the file
	 * system once the edit is on the disk. What another process has mapped of them becomes
	 * zeros: without CKPT_SAVE_REPLACE, that is CKPT_E_OUTPUT if such a process can be seen. On
	 * a file system without holes, the whole file is written anew.
	 */
	CKPT_SAVE_FREE = 1 << 6,
	/*
	 * CKPT_E_UNSUPPORTED (CKPT_REASON_CAST_LOSES), and nothing is written, if a cast makes a
	 * number infinite or 0: ckpt_cast_losses() says more. With CKPT_SAVE_DRY_RUN all numbers of
	 * the storages that are cast are read.
	 */
	CKPT_SAVE_CHECK_CASTS = 1 << 7,
	CKPT_SAVE_TO_FD = 1 << 8, /* ckpt_save(): write to the descriptor `out_fd` */
	/*
	 * ckpt_save() of a single file: PATH is a directory, and the output has the name of the
	 * input's file in it. A new directory gets its name when all in it is complete; of one that
	 * is there, only what is written is replaced. CKPT_E_ARG for output that is a directory
	 * itself, and for input without a file.
	 */
	CKPT_SAVE_IN_FOLDER = 1 << 9,
};

/* A file that is written together with a checkpoint: config.json, the files of a tokenizer. */
struct ckpt_side_file {
	const char *name; /* without a slash */
	const void *bytes;
	size_t len;
	uint32_t mode;	   /* permissions of a new file, less the umask, within those of the output */
	uint32_t reserved; /* 0 */
};

/* What to do with tensors that have bytes in common, in a format that cannot express that. */
enum ckpt_shared {
	CKPT_SHARED_DEFAULT, /* ALIAS if the input, of the same format, has aliases; else ERROR */
	CKPT_SHARED_ERROR,
	CKPT_SHARED_CLONE, /* write each of them; they no longer share */
	/*
	 * Of tensors that are the same, write the one whose name sorts first, and put the other
	 * names into the metadata of the file, as save_model() of the safetensors package does;
	 * ckpt_open() finds all of them again. CKPT_E_UNSUPPORTED if tensors share only a part of
	 * their bytes.
	 */
	CKPT_SHARED_ALIAS,
};

enum ckpt_reflink {
	CKPT_REFLINK_NEVER,
	CKPT_REFLINK_AUTO,   /* if the file systems can, and the edit changes only metadata */
	CKPT_REFLINK_ALWAYS, /* or fail with CKPT_E_UNSUPPORTED */
};

/* For `naming` in struct ckpt_save_options. */
enum ckpt_naming {
	CKPT_NAMING_BEGINS,
	CKPT_NAMING_ENDED,
};

struct ckpt_save_options {
	size_t size;
	unsigned flags;
	/*
	 * Which torch to write like: any version from "1.6" to "2.14" (a later 2.x is treated as
	 * 2.14), or "same" / NULL for the generation that wrote the input. It decides the records,
	 * their order and the storage keys.
	 */
	const char *profile;
	uint32_t alignment; /* of records; 0: the input's, or 64 */
	int crc;	    /* 1: all records get checksums, 0: none, -1: as in the input, or all */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	const volatile int *cancel; /* not 0: the save ends; see "Threads" in ckpt.h */
	uint32_t threads;	    /* that work at once; see "Threads" in ckpt.h */
	/*
	 * Let the output share the input's blocks (XFS, Btrfs) and append what is new, which takes
	 * milliseconds for any size. It holds the same checkpoint, but not in the layout of torch:
	 * it keeps the input's archive name and order, and dead bytes where the old pickle was.
	 */
	enum ckpt_reflink reflink;
	/*
	 * What to write: "torch" (one torch.save file), "torch-legacy" (the same as torch up to 1.5
	 * writes it), "dcp" (a directory of shards), "safetensors", "npz", "npy", or NULL for the
	 * format of the input.
	 *
	 * "safetensors": a dict of tensors and nothing else; ckpt_take_weights() makes one from a
	 * checkpoint. The layout is that of the package's save_file(). The metadata is that of the
	 * input if it is such a file, else {"format": "pt"}.
	 *
	 * "npz", "npy": files for numpy with all tensors, and with the numpy arrays and scalars in
	 * the checkpoint, under the names that ckpt_walk() gives them. "npz" is one archive, byte
	 * for byte what numpy.savez() writes for C-contiguous arrays; "npy" is a folder of .npy
	 * files, where %XX in a file name stands for a byte that it cannot have. numpy has no
	 * bfloat16, float8, complex32 or quantized numbers: use ckpt_cast() to make the floating
	 * ones float32 first. A sparse tensor becomes a dense array, in memory. CKPT_E_CLASH if two
	 * values have one name.
	 */
	const char *format;
	/*
	 * "dcp": for how many ranks; 0: for one, or, if the input is a directory, as they are.
	 * Dimension SHARD_DIM of every tensor is cut as torch.chunk cuts it (-1: for each tensor
	 * the one that fits best); tensors below LEAST_SHARD bytes stay whole.
	 *
	 * "safetensors" with RANKS not 0: PATH becomes a directory of the files that torch's
	 * HuggingFaceStorageWriter leaves for that many ranks,
	 * shard-00001-model-00001-of-00001.safetensors, cut in the same way. Its
	 * HuggingFaceStorageReader loads them with any number of ranks, and ckpt_open() reads them.
	 * The root must be a dict of tensors, as for one file. It excludes SHARD_SIZE and
	 * CKPT_SHARED_ALIAS. A rank that gets no part has no file.
	 */
	uint32_t ranks;
	int shard_dim;
	uint64_t least_shard;
	/*
	 * BYTEORDER: of the numbers in the new file, "little" (NULL is the same) or "big".
	 * FROM_BYTEORDER: of the input, whatever it says or if it says nothing, since torch 1.6 to
	 * 2.0 wrote its machine's own; NULL: what the input says, else "little". Both only with
	 * CKPT_SAVE_CANONICAL; "big" only for a profile of 2.1 or later, as older files cannot say
	 * so.
	 */
	const char *byteorder, *from_byteorder;
	enum ckpt_shared shared; /* "safetensors" */
	/*
	 * Not 0: PATH becomes a directory, a set of files in the style of Hugging Face's libraries,
	 * of format "safetensors" or "torch". Each file has at most this many bytes of tensors,
	 * unless a single tensor has more, and an index says which file has which tensor. The
	 * tensors are distributed, and the files named, as split_torch_state_dict_into_shards() of
	 * huggingface_hub does it; if one file is enough, it is model.safetensors or
	 * pytorch_model.bin, without an index. The root must be a dict of tensors, as for a
	 * safetensors file.
	 *
	 * 0: an edited set is distributed anew, by the size of its largest file, and keeps its
	 * names; anything else becomes one file.
	 */
	uint64_t shard_size;
	/*
	 * Called for every entry that the format cannot hold, whether it is left out or an error,
	 * with NAME, escaped, and WHY: "has a key that is not a str but int", "is bfloat16, which
	 * numpy does not have" or the like. Strings are valid during the call. May be NULL.
	 */
	void (*unfit)(void *ctx, const char *name, const char *why);
	void *unfit_ctx;
	/*
	 * With CKPT_SAVE_TO_FD: write the file to this descriptor, in order and from its offset on:
	 * a pipe, a socket, standard output. PATH is only its name in messages, and a torch.save file
	 * is called "archive" inside, as torch.save() to a buffer has it. The file is made in an
	 * unnamed one in SPOOL_FOLDER (NULL: /tmp), which needs the space, and is copied when it is
	 * complete: on any failure before that, the descriptor gets nothing. What is a directory of files is
	 * CKPT_E_OUTPUT. The descriptor stays open. Ignore SIGPIPE, or a reader that goes away ends
	 * the process.
	 */
	int out_fd;
	uint32_t reserved; /* 0 */
	const char *spool_folder;
	/*
	 * Called when the output is complete and synced, directly before it gets its name
	 * (CKPT_NAMING_BEGINS): not 0, and the save ends with CKPT_E_CANCELLED, without an output.
	 * Called again when it has its name, or failed to get it, before the folder is synced
	 * (CKPT_NAMING_ENDED): what it returns does not matter then. So a program that makes a save
	 * in a thread and stops waiting for it knows whether there is an output or will never be
	 * one. Not called with CKPT_SAVE_TO_FD, nor by a save in place that changes the files
	 * themselves. May be NULL.
	 */
	int (*naming)(void *ctx, enum ckpt_naming what);
	void *naming_ctx;
	/*
	 * Files that are written in the directory of a set, or beside a single file: all of it, or
	 * nothing. All are complete before anything gets its name. With CKPT_SAVE_REPLACE they take
	 * the place of files of their names, and a set that was written with them can be replaced.
	 * Never in the directory that the input is in (CKPT_E_OUTPUT), nor with CKPT_SAVE_TO_FD or a
	 * directory that is no set of shards (CKPT_E_ARG).
	 */
	const struct ckpt_side_file *files;
	size_t file_count;
};
#define CKPT_SAVE_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_save_options), .crc = -1 \
	}

struct ckpt_save_report {
	size_t size;
	uint64_t nbytes;  /* of the new file */
	uint32_t dropped; /* records of the input that were left out */
	uint64_t written; /* bytes: all of them, or those that an edit in place wrote */
	bool reflinked;
	const char *rewritten; /* in place: why the whole file was written anew; NULL: it was not */
	/*
	 * Storages whose bytes were swapped although torch does not swap them when it loads a file
	 * of the other byte order: tensors of dtypes without a storage class, uint16, complex32 ...
	 */
	uint32_t turned_alone;
	uint64_t others;	  /* entries that the format cannot hold and that were left out */
	uint64_t cloned, aliased; /* tensors that share bytes with one that was written before */
	uint32_t shards;	  /* files of a set; 0: a single file, or another directory */
	uint64_t arrays;	  /* "npz", "npy": how many were written */
	uint64_t dead;		  /* in place: whole blocks of the file that nothing refers to now, in bytes */
	uint64_t freed;		  /* CKPT_SAVE_FREE: bytes that the file takes less on the disk */
};
#define CKPT_SAVE_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_save_report) \
	}

/*
 * Take the bytes of MODEL as they are from now on: recorded checksums are neither compared nor
 * carried along, and new ones are computed. Damage that ckpt_verify() finds in the input is sound
 * in the output, so tell your users. Call it before anything else is done with MODEL.
 */
CKPT_API void ckpt_ignore_checksums(struct ckpt_model *model);

/*
 * Write MODEL to PATH in the format it came from, as torch itself would: byte for byte what
 * torch.load, the same edit, and torch.save give. The file gets its name only when it is complete
 * and synced. On any failure nothing is left behind, with one exception: if only the last step, the
 * sync of the folder, fails, the file is there and whole, and the error says so. The input is never
 * touched, and PATH must not be the input.
 *
 * Records that are copied keep the input's checksums, unread, so ckpt_verify() finds the same
 * damage in the output. Where bytes get other checksums (a cast, another number of ranks) or none
 * (safetensors), the recorded ones are compared: CKPT_E_DAMAGED. Memory: a few MiB plus the
 * metadata.
 *
 * Returns 0; CKPT_E_EXISTS; CKPT_E_OUTPUT; CKPT_E_IO; CKPT_E_CHANGED if the input changed
 * meanwhile; CKPT_E_FORMAT if a storage record is missing or has the wrong size; CKPT_E_DAMAGED;
 * CKPT_E_UNSUPPORTED; CKPT_E_CANCELLED; CKPT_E_NOMEM. REPORT may be NULL.
 */
CKPT_API int ckpt_save(const struct ckpt_model *model, const char *path,
		       const struct ckpt_save_options *options, struct ckpt_save_report *report,
		       struct ckpt_error *err);

/*
 * Make the file that MODEL was opened from hold what MODEL holds, in time that depends only on the
 * metadata: tensor bytes stay where they are, the new pickle and directory are appended, the old
 * ones wiped. At every moment, even if the machine stops, the file is either the old checkpoint or
 * the new one. What was dropped stays in the file as dead bytes; a save to another file leaves them
 * out, and CKPT_SAVE_FREE gives them back. What earlier edits have left of pickles and directories
 * is used again, so that the file does not grow with each edit.
 *
 * If bytes of tensors change (a cast), or the file does not end as torch ends it, a new file is
 * written beside it and takes its place; the report says why. Of OPTIONS, only CKPT_SAVE_DRY_RUN,
 * CKPT_SAVE_FREE, CKPT_SAVE_CHECK_CASTS, `progress`, `cancel` and CKPT_SAVE_REPLACE count;
 * CKPT_SAVE_REPLACE allows a symbolic link, or a file with several names unless it has to be
 * written anew. The model still shows the old state of the file and should be closed.
 *
 * Returns 0; CKPT_E_OUTPUT for a link without CKPT_SAVE_REPLACE; CKPT_E_CHANGED, also if somebody
 * else is changing the file; CKPT_E_ARG for a model from memory; else as ckpt_save(). On failure
 * the file is what it was, unless only the wiping failed, which the text says.
 */
CKPT_API int ckpt_save_in_place(const struct ckpt_model *model,
				const struct ckpt_save_options *options,
				struct ckpt_save_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
