/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_ERROR_H
#define CKPT_ERROR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CKPT_API __attribute__((visibility("default")))
#else
#define CKPT_API
#endif

/* Every function that can fail returns 0 or one of these. */
enum ckpt_status {
	CKPT_OK = 0,
	CKPT_E_ARG = -1,	 /* the caller asked for something that makes no sense */
	CKPT_E_NOMEM = -2,	 /* the system has no memory left */
	CKPT_E_IO = -3,		 /* the system refused to read or write; see sys_errno */
	CKPT_E_FORMAT = -4,	 /* the file breaks the rules of its own format */
	CKPT_E_LIMIT = -5,	 /* the file asks for more memory or depth than allowed */
	CKPT_E_UNSUPPORTED = -6, /* sound, but of a kind that this function cannot handle */
	CKPT_E_EXISTS = -7,	 /* the output exists already; CKPT_SAVE_REPLACE replaces it */
	CKPT_E_NOTFOUND = -8,	 /* no such name in the checkpoint */
	CKPT_E_CLASH = -9,	 /* an edit would give two entries the same name */
	CKPT_E_CHANGED = -10,	 /* the input was changed while it was being read */
	CKPT_E_CANCELLED = -11,	 /* the caller's cancel flag was set */
	CKPT_E_OUTPUT = -12,	 /* output cannot have this name: a folder, the input itself ... */
	CKPT_E_PEER = -13,	 /* another process of the job failed, or does not answer */
	CKPT_E_GPU = -14,	 /* the driver of the GPU refused, or the GPU failed */
	CKPT_E_DAMAGED = -15,	 /* bytes do not have the checksum that is recorded for them */
	/* a library did not get what it needs of this system: shared memory, locked memory, a port */
	CKPT_E_SYSTEM = -16,
};

/* The reason for a status, where a program can do something about it. */
enum ckpt_reason {
	CKPT_REASON_NONE = 0,	   /* the status says everything */
	CKPT_REASON_TRUNCATED = 1, /* FORMAT: the file ends too early */
	/* the file ends after some whole storages, which ckpt_repair_open() saves */
	CKPT_REASON_STORAGES_MISSING, /* FORMAT */
	/* the directory of the archive is damaged or missing; ckpt_repair_open() finds records */
	CKPT_REASON_ZIP_DIRECTORY, /* FORMAT */
	/* another tool unpacked the archive and packed it again, in a way that torch refuses */
	CKPT_REASON_REPACKED, /* FORMAT */
	/* a DCP directory without .metadata, and without anything to make one from */
	CKPT_REASON_DCP_NO_INDEX, /* FORMAT */
	CKPT_REASON_DCP_REINDEX,  /* FORMAT: ... for which ckpt_reindex() makes one */
	/* ... whose .metadata is older than the indexes of ranks: ckpt_reindex() with from_ranks */
	CKPT_REASON_DCP_OLD_INDEX, /* FORMAT */
	CKPT_REASON_DCP_DATA_FILE, /* UNSUPPORTED: a data file of DCP; open its directory instead */
	/* two tensors are the same bytes, which the format cannot express; see CKPT_SHARED_ALIAS */
	CKPT_REASON_SAME_BYTES,	  /* UNSUPPORTED */
	CKPT_REASON_COMMON_BYTES, /* UNSUPPORTED: two tensors have only some bytes in common */
	CKPT_REASON_NO_RECORD,	  /* NOTFOUND: the archive has no record of that name */
	/* tensors to be averaged have other names, shapes or dtypes in one of the checkpoints */
	CKPT_REASON_NOT_ALIKE, /* UNSUPPORTED */
	/* what is not averaged differs; see CKPT_AVERAGE_OTHERS_LAST */
	CKPT_REASON_NOT_EQUAL, /* UNSUPPORTED */
	/* tensors to be averaged share bytes, or have gaps, in one checkpoint and not in another */
	CKPT_REASON_OTHER_LAYOUT, /* UNSUPPORTED */
	CKPT_REASON_CAST_LOSES,	  /* UNSUPPORTED: see CKPT_SAVE_CHECK_CASTS */
	/* weights are quantized, or said to be, so that parts of them are no numbers to be cast or averaged */
	CKPT_REASON_QUANTIZED, /* any of FORMAT, UNSUPPORTED */
};

#define CKPT_NO_OFFSET UINT64_MAX

/*
 * What went wrong and where. The caller provides the struct (CKPT_ERROR_INIT), or passes NULL if it
 * does not care. Its size never changes. Nothing is allocated to fill it.
 *
 * The deepest function says what, in TEXT; those above it add where: the file, the record of the
 * archive, the offset in the record (CKPT_NO_OFFSET: none). Strings that came from a file are
 * already escaped and safe to print.
 */
struct ckpt_error {
	int32_t status;	   /* enum ckpt_status; 0 until something fails */
	int32_t sys_errno; /* errno of the system call that failed, or 0 */
	uint64_t offset;
	char path[320];
	char record[160];
	char text[512];
	int32_t reason; /* enum ckpt_reason: a program may decide by it; texts change */
	uint8_t named;	/* for the library: TEXT begins with the name of what it is about */
	char reserved[11];
};

#define CKPT_ERROR_INIT \
	{ \
		.offset = CKPT_NO_OFFSET \
	}

/*
 * Write "PATH: RECORD+0xOFFSET: TEXT" to BUF, as much as fits, always with a NUL at the end. Parts
 * that are not known are left out. Returns BUF.
 */
CKPT_API char *ckpt_error_format(const struct ckpt_error *err, char *buf, size_t size);

#ifdef __cplusplus
}
#endif
#endif
