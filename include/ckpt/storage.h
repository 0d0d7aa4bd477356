/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes behind tensors: where they are, a map of them, and many of them at once. One storage is
 * one block of memory once it is loaded, which several tensors may show parts of
 * (ckpt_tensor_info.storage).
 *
 * What must stay true: bytes are those that torch.load would put into memory, in the byte order of
 * this machine. What lies in a file in another form (compressed, of the other byte order, in the
 * chunks of a directory, made by an edit) can be read but not mapped.
 */
#ifndef CKPT_STORAGE_H
#define CKPT_STORAGE_H

#include <ckpt/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One storage. Strings are borrowed from the model. */
struct ckpt_storage_info {
	size_t size;
	const char *key; /* in a torch.save file: of the record data/KEY */
	/* of its storage class; "uint8" for an UntypedStorage, whose tensors have any dtype */
	const char *dtype;
	const char *device;	/* as the file says: "cpu", "cuda:0" ... */
	uint64_t numel, nbytes; /* numel: items of DTYPE */
	/*
	 * If all bytes lie in one stretch of a file as they would be in memory: the file and the
	 * offset of the first. Else PATH is NULL; also if the model is not from a file.
	 */
	const char *path;
	uint64_t offset;
	bool has_crc; /* a checksum of the bytes is recorded: */
	bool is_cut;  /* the record in the file is longer: torch 2.14 reads such a one with mmap=True only */
	bool is_one_way; /* compressed: a range costs all bytes in front of it, too */
	uint8_t reserved;
	uint32_t crc32;
	/*
	 * That file, open for reading, borrowed from the model; -1: PATH is NULL. Whoever maps it has
	 * what the model has read, whatever file has been given the name since.
	 */
	int32_t descriptor;
	uint32_t reserved2;
};
#define CKPT_STORAGE_INFO_INIT \
	{ \
		.size = sizeof(struct ckpt_storage_info) \
	}

/*
 * Describe storage I, 0 <= I < ckpt_storage_count(). Returns 0; CKPT_E_ARG; CKPT_E_FORMAT if the
 * file has no such record, or one of another size; CKPT_E_IO; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_storage_get(const struct ckpt_model *model, uint64_t i,
			      struct ckpt_storage_info *out, struct ckpt_error *err);

/*
 * *OUT: the bytes of storage I in a read-only map of the whole file, which is made by the first
 * call and lives as long as the model. Alignment is that of the file; of torch.save files at least
 * 64 unless they were repacked. If another process cuts the file meanwhile, reading the bytes
 * raises SIGBUS. Returns 0; CKPT_E_UNSUPPORTED if `path` would be NULL and the model is not from
 * memory; else as ckpt_storage_get().
 */
CKPT_API int ckpt_storage_map(const struct ckpt_model *model, uint64_t i, const void **out,
			      struct ckpt_error *err);

/* A stretch of a storage that is wanted in memory. */
struct ckpt_storage_range {
	uint64_t storage;
	uint64_t offset, nbytes; /* in bytes; within the storage */
	void *buf;		 /* NBYTES of memory, which nothing else uses meanwhile */
};

/* How to read. All 0, but `size`, is the default. */
struct ckpt_storage_read_options {
	size_t size;
	uint32_t threads; /* that work at once; see "Threads" in ckpt.h */
	/*
	 * 1: of storages that are read whole, and have a recorded checksum, compare it:
	 * CKPT_E_DAMAGED. torch.load does not.
	 */
	uint32_t check;
	const volatile int *cancel; /* see "Threads" in ckpt.h */
	/* Called in the caller's thread, with bytes; not 0 ends the reading and is returned. */
	int (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
};
#define CKPT_STORAGE_READ_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_storage_read_options) \
	}

/*
 * Read COUNT ranges, in any order, each byte once; of a storage that is_one_way, what is in front of a range, too. OPTIONS may be NULL. After a failure the buffers
 * hold anything.
 *
 * Returns 0; CKPT_E_ARG; what ckpt_storage_get() returns; CKPT_E_DAMAGED; CKPT_E_CANCELLED;
 * CKPT_E_CHANGED if a file is not what it was when it was opened.
 */
CKPT_API int ckpt_storages_read(const struct ckpt_model *model,
				const struct ckpt_storage_range *ranges, uint64_t count,
				const struct ckpt_storage_read_options *options,
				struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
