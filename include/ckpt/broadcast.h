/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_H
#define CKPT_BROADCAST_H

#include <ckpt/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How it ended, the same on every rank where the ranks could still agree; exit codes of `ckpt broadcast`. */
enum ckpt_broadcast_code {
	CKPT_BROADCAST_OK = 0,
	CKPT_BROADCAST_SOURCE = 3,	/* cannot be read, or was changed */
	CKPT_BROADCAST_DESTINATION = 4, /* cannot be written on some node */
	CKPT_BROADCAST_DAMAGED = 5,	/* other bytes came than were sent */
	CKPT_BROADCAST_SETUP = 6, /* the ranks did not find each other, or want different things */
	CKPT_BROADCAST_LOST = 7,  /* a rank died or does not answer, or the transport failed */
	CKPT_BROADCAST_NO_TRANSPORT = 8, /* no GPU, driver or library for what is wanted */
	CKPT_BROADCAST_PARTIAL = 9,	 /* with KEEP_GOING: some ranks have not got it */
	CKPT_BROADCAST_CANCELLED =
		128, /* the cancel flag was raised on some rank; with its value added */
};

enum ckpt_broadcast_flags {
	CKPT_BROADCAST_NO_SYNC = 1 << 0,   /* do not wait for the disk */
	CKPT_BROADCAST_NO_VERIFY = 1 << 1, /* no checksums on the way */
	CKPT_BROADCAST_NO_TARGET = 1 << 2, /* carry the bytes and drop them, to measure */
	/* What if the destination is there: by default it is kept if it is the same staged before, else replaced. */
	CKPT_BROADCAST_REPLACE = 1 << 3, /* always written anew */
	CKPT_BROADCAST_NEW = 1 << 4,	 /* an error */
	/*
	 * The process may be ended, with the code and a line on standard error, where MPI waits for a lost rank
	 * and does not come back: in MPI_Init and MPI_Finalize. Without it the call never returns then.
	 */
	CKPT_BROADCAST_MAY_EXIT = 1 << 5,
	/*
	 * Every rank gets all bytes in the memory of its GPU, and no file is written: REPORT->gpu. On all ranks or
	 * none.
	 */
	CKPT_BROADCAST_TO_GPU = 1 << 6,
	/* What was written is read again from the disk, and has to be what came. Not with NO_SYNC or NO_VERIFY. */
	CKPT_BROADCAST_REREAD = 1 << 8,
	/* Folders that are missing in front of the destination are made. */
	CKPT_BROADCAST_MKDIR = 1 << 9,
	/* A rank that cannot write does without; the others get theirs. Not with ALL_OR_NONE. */
	CKPT_BROADCAST_KEEP_GOING = 1 << 10,
	/*
	 * If one rank cannot give the names, the others remove what they have just named. What that has replaced
	 * is gone.
	 */
	CKPT_BROADCAST_ALL_OR_NONE = 1 << 11,
};

/*
 * What carries the bytes, if the program has something of its own that joins its processes: torch.distributed, an MPI
 * communicator. All ranks make the same calls in the same order, from the thread that called ckpt_broadcast(). 0
 * is success; a rank that does not answer is for the callbacks to notice where they wait.
 */
struct ckpt_collectives {
	size_t size;
	uint32_t rank, world_size;
	/*
	 * The NBYTES at BUFFER of rank ROOT to all. BUFFER is memory of the host, or with ON_GPU of this process's GPU
	 * (ckpt_broadcast_options.gpu): then the call only puts it into STREAM, a CUstream or cudaStream_t, and need
	 * not wait. Without it STREAM is NULL, and the bytes are there when it returns.
	 */
	int (*broadcast)(void *ctx, void *buffer, size_t nbytes, uint32_t root, void *stream);
	bool on_gpu;
	/* Each of the COUNT numbers becomes the greatest that any rank has in its place. */
	int (*allreduce_max)(void *ctx, uint64_t *numbers, size_t count);
	void *ctx;
};

struct ckpt_broadcast_options {
	size_t size;
	unsigned flags;
	/* Which process of the job this is; NULL and -1: found from the variables of launchers, see `launcher`. */
	const char *launcher;
	int64_t rank, world_size, local_rank;
	const char *job_key; /* up to 500 bytes, the same for all ranks of one start of the job */
	const char *transport; /* "self", "mpi", "nccl"; NULL: what is there */
	uint32_t readers;      /* ranks 0 .. readers - 1 read, in turn; 0: one */
	uint64_t chunk;	       /* bytes; 0: 1 MiB, from GPU to GPU 64, less for small sources */
	uint32_t depth;	       /* chunks in memory; 0: 4 to 16, for 16 MiB, from GPU to GPU 384 */
	uint32_t threads;      /* that read and write, for each rank; 0: 4 */
	double timeout_s;      /* without a byte, or an answer; 0: 60 s */
	/* On rank 0 alone: the others are as far. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	const volatile int *cancel; /* not 0: all ranks end; see "Threads" in ckpt.h */
	int64_t gpu; /* number of this process's GPU; -1: the local rank, counted round the GPUs there are */
	const struct ckpt_collectives *collectives; /* NULL: transports of ckpt's own */
	/*
	 * How the ranks meet before anything carries: "mpi", "pmix", "file:DIR", a folder that all of them see, or
	 * "id:HEX", the 256 hex digits of an ncclUniqueId that a process which goes on living has made;
	 * NULL: by what their launcher offers, else in $CKPT_RDZV_DIR or $SLURM_SUBMIT_DIR/.ckpt.
	 */
	const char *rendezvous;
	double init_timeout_s; /* until all ranks are there; 0: 120 s */
	/*
	 * The last that happens before the ranks part: the report and the error are filled. Some launchers end all
	 * ranks as soon as one has ended with an error, and drop what others say behind that.
	 */
	void (*ended)(void *ctx);
	void *ended_ctx;
	/* The CRC-32 that the one file has to have: else it is CKPT_BROADCAST_DAMAGED. Not with NO_VERIFY. */
	bool has_expected;
	uint32_t expected_crc32;
};
#define CKPT_BROADCAST_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_broadcast_options), .rank = -1, .world_size = -1, \
		.local_rank = -1, .gpu = -1 \
	}

struct ckpt_broadcast_report {
	size_t size;
	int code; /* enum ckpt_broadcast_code */
	uint32_t rank, world_size, local_rank;
	const char *launcher, *transport; /* static */
	uint32_t failed_rank;		  /* whose error it is */
	bool reused;			  /* it was there already, on all ranks; nothing was read */
	uint32_t files;
	uint64_t nbytes; /* of all files */
	bool has_crc;
	uint32_t crc32; /* of the one file */
	double seconds; /* between the first byte and the last name */
	char host[64];
	char path[1024]; /* of what is there now on this node */
	struct ckpt_gpu_copy
		*gpu; /* with CKPT_BROADCAST_TO_GPU: the caller's, for ckpt_gpu_release() */
};
#define CKPT_BROADCAST_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_broadcast_report), .launcher = "none", .transport = "" \
	}

/*
 * Bring files to every node of a job: called by all of its processes with the same arguments. The first
 * READERS ranks read each byte of the sources once; it is carried to all; the first process of every node
 * writes it. Nothing has its final name before all ranks have all bytes with the right checksums, and if
 * one rank fails none of them gives a name.
 *
 * SOURCES: files, or one directory, whose tree is brought as a whole. DESTINATION: a path, the same for
 * all but for what is filled in: %h host, %n number of the node, %r rank, %l local rank, %j job key, %u user,
 * %b name of the source, %% a percent sign. NULL is as good as any with CKPT_BROADCAST_TO_GPU and NO_TARGET. Several files need a folder that exists; so does a path that ends with '/'. Where it has
 * neither %r nor %l only the process with local rank 0 writes.
 *
 * Returns 0, or an error of this rank or the one that all were told; REPORT->code says what kind. Blocks
 * until all ranks are done or a peer was silent for too long. For one thread at a time, or with `collectives`
 * or the `rendezvous` id:HEX one for each rank. The environment is read (launchers, CKPT_*), never changed: NCCL_* and
 * CUDA_MODULE_LOADING are for the program to set, before it starts threads.
 */
CKPT_API int ckpt_broadcast(const char *const *sources, size_t count, const char *destination,
			    const struct ckpt_broadcast_options *options,
			    struct ckpt_broadcast_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif

#endif
