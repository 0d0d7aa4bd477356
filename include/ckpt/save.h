/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SAVE_H
#define CKPT_SAVE_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

enum ckpt_save_flags {
	/*
	 * Replace an existing file, keeping its mode; a link itself is replaced. A directory is replaced only if each file in it
	 * is one that such an output consists of; else it is CKPT_E_OUTPUT with the name of one that is not.
	 */
	CKPT_SAVE_REPLACE = 1 << 0,
	CKPT_SAVE_NO_SYNC = 1 << 1, /* leave writing back to the system, as cp does */
	/*
	 * Write what torch.load + torch.save would: protocol 2, records that torch knows only, and,
	 * unless the options below say otherwise, alignment 64 and checksums. Without it the input's
	 * protocol, records, alignment and CRC setting are kept. A big-endian file becomes
	 * a little-endian one.
	 */
	CKPT_SAVE_CANONICAL = 1 << 2,
	CKPT_SAVE_DRY_RUN = 1 << 3, /* do everything but write */
	/*
	 * An edited directory gets hard links to the input's data files instead of copies. Who saves into
	 * one of the two later destroys both: torch truncates data files where they are.
	 */
	CKPT_SAVE_HARD_LINK = 1 << 4,
	CKPT_SAVE_DROP_OTHERS =
		1 << 5, /* leave out what the format cannot hold; else that is CKPT_E_UNSUPPORTED */
	/*
	 * ckpt_save_in_place() of a torch.save file: give the blocks of dead bytes back to the file system, once the edit is on the disk. What
	 * another process has mapped of them becomes zeros: without CKPT_SAVE_REPLACE that is CKPT_E_OUTPUT where such a process can be seen.
	 * A file system without holes has the whole file written anew.
	 */
	CKPT_SAVE_FREE = 1 << 6,
};

/* What becomes of tensors that have bytes in common, where a format has no word for it. */
enum ckpt_shared {
	CKPT_SHARED_DEFAULT, /* ALIAS if the input, of the same format, has aliases; else ERROR */
	CKPT_SHARED_ERROR,
	CKPT_SHARED_CLONE, /* each is written, and they no longer share */
	/*
	 * One of several tensors that are the same is written, that whose name sorts first, and the metadata of the file hold the names
	 * of the others, as save_model() of the safetensors package writes them; whoever opens the file here finds all of
	 * them. CKPT_E_UNSUPPORTED if tensors share a part of their bytes only.
	 */
	CKPT_SHARED_ALIAS,
};

enum ckpt_reflink {
	CKPT_REFLINK_NEVER,
	CKPT_REFLINK_AUTO,   /* where the file systems can, and the edit is one of metadata */
	CKPT_REFLINK_ALWAYS, /* or fail with CKPT_E_UNSUPPORTED */
};

struct ckpt_save_options {
	size_t size;
	unsigned flags;
	/*
	 * Which torch to write like: any version from "1.6" to "2.14" (a later 2.x is as 2.14), or
	 * "same" / NULL for the generation that wrote the input. Decides the records, their order and
	 * the storage keys.
	 */
	const char *profile;
	uint32_t alignment; /* of records; 0: the input's, or 64 */
	int crc;	    /* 1: all records get checksums, 0: none, -1: as in the input, or all */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	const volatile int *cancel; /* not 0: the save ends; see "Threads" in ckpt.h */
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	/*
	 * Let the output share the input's blocks (XFS, Btrfs), and append what is new: any size in
	 * milliseconds. It holds the same checkpoint, but is not laid out as torch would: it has the
	 * input's archive name and order, and dead bytes where the old pickle was.
	 */
	enum ckpt_reflink reflink;
	/*
	 * What to write: "torch" (one torch.save file), "torch-legacy" (the same as torch up to 1.5), "dcp" (a directory of shards),
	 * "safetensors", "npz", "npy", or NULL for the format of the input.
	 *
	 * A safetensors file is a dict of tensors and nothing else; ckpt_take_weights() makes one of a checkpoint. It is laid out as
	 * save_file() of the package does it. Its metadata are those of the input if that is such a file, else {"format": "pt"}.
	 *
	 * "npz" and "npy" are files for numpy of all tensors, and of the arrays and scalars of numpy in the checkpoint, by the
	 * names that ckpt_walk() gives them: one archive, byte for byte what numpy.savez() writes of C-contiguous arrays, or a
	 * folder of .npy files, where %XX in the name of a file stands for a byte that it cannot have. numpy has no bfloat16,
	 * float8, complex32 and quantized numbers: ckpt_cast() before makes float32 of the floating ones. A sparse tensor
	 * becomes the dense array that it is, in memory. CKPT_E_CLASH: two values have one name.
	 */
	const char *format;
	/*
	 * "dcp": for how many ranks; 0: for one, or as they are if the input is a directory. Dimension
	 * SHARD_DIM of every tensor is cut as torch.chunk cuts it (-1: the one that fits best, per tensor);
	 * tensors below LEAST_SHARD bytes stay whole.
	 *
	 * "safetensors", and RANKS not 0: PATH becomes a directory of the files that torch's HuggingFaceStorageWriter leaves for so
	 * many ranks, shard-00001-model-00001-of-00001.safetensors, cut in the same way; its HuggingFaceStorageReader loads them with
	 * any number of ranks, and ckpt_open() reads them. The root has to be a dict of tensors, as for one file.
	 * Not together with SHARD_SIZE or CKPT_SHARED_ALIAS. A rank that gets no part has no file.
	 */
	uint32_t ranks;
	int shard_dim;
	uint64_t least_shard;
	/*
	 * Byte order of the numbers in the new file, "little" (NULL: as well) or "big", and that of the input whatever it says, or
	 * if it says nothing: torch 1.6 to 2.0 wrote its machine's own (NULL: what the input says, else "little"). Only with
	 * CKPT_SAVE_CANONICAL; "big" only for a profile of 2.1 or later, which alone can say so.
	 */
	const char *byteorder, *from_byteorder;
	enum ckpt_shared shared; /* "safetensors" */
	/*
	 * Not 0: PATH becomes a directory, a set of files as Hugging Face's libraries make it, of format "safetensors" or "torch":
	 * each file has at most so many bytes of tensors, unless a single one has more, and an index says what is where. Tensors are
	 * dealt out as split_torch_state_dict_into_shards() of huggingface_hub does it, and with its names: model.safetensors, or
	 * pytorch_model.bin, if it is one file, which has no index. The root has to be a dict of tensors, as for a safetensors file.
	 *
	 * 0: a set that is edited is dealt out anew, with the size of its largest file, and keeps its names; others are one file.
	 */
	uint64_t shard_size;
	/*
	 * Called for every entry that the format cannot hold, whether it is left out or an error: NAME, escaped, "has a key that is
	 * no str but int", "is bfloat16, which numpy does not have" or the like. Strings are valid during the call. May be NULL.
	 */
	void (*unfit)(void *ctx, const char *name, const char *why);
	void *unfit_ctx;
};
#define CKPT_SAVE_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_save_options), .crc = -1 \
	}

struct ckpt_save_report {
	size_t size;
	uint64_t nbytes;  /* of the new file */
	uint32_t dropped; /* records of the input that were left out */
	uint64_t written; /* bytes: all of them, or those that an edit in place took */
	bool reflinked;
	const char *
		rewritten; /* in place: why the whole file had to be written anew; NULL: it had not */
	/*
	 * Storages whose numbers were turned around, though torch itself leaves them alone when it loads a file of the other
	 * byte order: tensors of dtypes without a storage class, uint16, complex32 ...
	 */
	uint32_t turned_alone;
	uint64_t others;	  /* entries that the format cannot hold, and that were left out */
	uint64_t cloned, aliased; /* tensors that share bytes with one that was written before */
	uint32_t shards; /* files of a set; 0: one file that is none, or another directory */
	uint64_t arrays; /* "npz", "npy": those written */
	uint64_t dead;	 /* in place: bytes of the file that nothing refers to now */
	uint64_t freed;	 /* CKPT_SAVE_FREE: bytes that the file takes less on the disk */
};
#define CKPT_SAVE_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_save_report) \
	}

/*
 * From now on the bytes of MODEL, which nothing was done with since ckpt_open(), are taken as they are: no recorded checksum is compared or
 * carried along, new ones are computed. What ckpt_verify() of the input finds damaged is sound in the output, so say it.
 */
CKPT_API void ckpt_ignore_checksums(struct ckpt_model *model);

/*
 * Write MODEL to PATH in the format it came from, as torch itself would: byte for byte what
 * torch.load, the same edit, and torch.save give. The file gets its name only when it is complete
 * and synced; on any failure nothing is left behind (but if only the folder cannot be synced at the
 * very end, the file is there and whole, and the error says so). The input is never touched, and PATH must not
 * be the input.
 *
 * Checksums of records that are copied come from the input, and are carried along unread: ckpt_verify() of the output finds the damage
 * that is in it. Where bytes get other checksums (a cast, another number of ranks), or none (safetensors), the recorded ones are compared:
 * CKPT_E_DAMAGED. Memory: a few MiB plus the metadata.
 *
 * Returns 0; CKPT_E_EXISTS; CKPT_E_OUTPUT; CKPT_E_IO; CKPT_E_CHANGED if the input changed meanwhile;
 * CKPT_E_FORMAT if a storage record is missing or has the wrong size; CKPT_E_DAMAGED; CKPT_E_UNSUPPORTED;
 * CKPT_E_CANCELLED; CKPT_E_NOMEM. REPORT may be NULL.
 */
CKPT_API int ckpt_save(const struct ckpt_model *model, const char *path,
		       const struct ckpt_save_options *options, struct ckpt_save_report *report,
		       struct ckpt_error *err);

/*
 * Make the file that MODEL was opened from hold what MODEL holds, in time that depends on the metadata
 * only: the tensors' bytes stay where they are, the new pickle and directory are appended, old ones wiped.
 * At every moment, also if the machine stops, the file is the old checkpoint or the new one. What was
 * dropped stays as dead bytes; a save to another file leaves them out, CKPT_SAVE_FREE gives them back. What
 * earlier edits have left of pickles and directories is used again, so that a file does not grow with each.
 *
 * Where bytes of tensors change (a cast), or the file does not end as torch ends it, a new file is
 * written beside and takes its place; the report says why. OPTIONS: only CKPT_SAVE_DRY_RUN, CKPT_SAVE_FREE, progress, cancel and
 * CKPT_SAVE_REPLACE, which allows a symbolic link or a file with several names. The model keeps
 * showing the file as it was and should be closed.
 *
 * Returns 0; CKPT_E_OUTPUT for a link without CKPT_SAVE_REPLACE; CKPT_E_CHANGED, also if somebody else
 * is at it; CKPT_E_ARG for a model from memory; else as ckpt_save(). On failure the file is what it was,
 * unless only the wiping failed, which the text says.
 */
CKPT_API int ckpt_save_in_place(const struct ckpt_model *model,
				const struct ckpt_save_options *options,
				struct ckpt_save_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
