/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast: the processes of a job call ckpt_broadcast() together, and every node gets a copy of
 * files or of a directory that only a few of them read.
 *
 * What must stay true: a file gets its final name only after all ranks have all bytes with the
 * right checksums, and if one rank fails, none of them gives a name (CKPT_BROADCAST_KEEP_GOING is
 * the exception that a caller may ask for). All ranks return the same code as long as they can
 * still agree on one. Nothing here knows checkpoints: any file will do.
 */
#ifndef CKPT_BROADCAST_H
#define CKPT_BROADCAST_H

#include <ckpt/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How it ended, the same on every rank where the ranks could still agree. These are also the exit
 * codes of `ckpt broadcast`.
 */
enum ckpt_broadcast_code {
	CKPT_BROADCAST_OK = 0,
	CKPT_BROADCAST_SOURCE = 3,	/* cannot be read, or was changed */
	CKPT_BROADCAST_DESTINATION = 4, /* cannot be written on some node */
	CKPT_BROADCAST_DAMAGED = 5,	/* the bytes that arrived are not those that were sent */
	CKPT_BROADCAST_SETUP = 6, /* the ranks did not find each other, or want different things */
	CKPT_BROADCAST_LOST = 7,  /* a rank died or does not answer, or the transport failed */
	CKPT_BROADCAST_NO_TRANSPORT = 8, /* no GPU, driver or library for what is wanted */
	CKPT_BROADCAST_PARTIAL = 9,	 /* with KEEP_GOING: some ranks did not get it */
	/* the cancel flag was set on some rank; its value is added */
	CKPT_BROADCAST_CANCELLED = 128,
};

enum ckpt_broadcast_flags {
	CKPT_BROADCAST_NO_SYNC = 1 << 0,   /* do not wait for the disk */
	CKPT_BROADCAST_NO_VERIFY = 1 << 1, /* no checksums on the way */
	CKPT_BROADCAST_NO_TARGET = 1 << 2, /* carry the bytes and drop them, to measure */
	/*
	 * What to do if the destination exists. The default is to keep it if it is the same source
	 * from an earlier broadcast, else to replace it.
	 */
	CKPT_BROADCAST_REPLACE = 1 << 3, /* always write it anew */
	CKPT_BROADCAST_NEW = 1 << 4,	 /* it is an error */
	/*
	 * The process may be ended, with the code and a line on standard error, where MPI waits for
	 * a lost rank and does not come back: in MPI_Init and MPI_Finalize. Without this flag the
	 * call never returns in that case.
	 */
	CKPT_BROADCAST_MAY_EXIT = 1 << 5,
	/*
	 * Every rank gets all bytes in the memory of its GPU, and no file is written: REPORT->gpu.
	 * On all ranks or none.
	 */
	CKPT_BROADCAST_TO_GPU = 1 << 6,
	/*
	 * Read again from the disk what was written, and compare it with what arrived. Not with
	 * NO_SYNC or NO_VERIFY.
	 */
	CKPT_BROADCAST_REREAD = 1 << 8,
	/* Make missing folders above the destination. */
	CKPT_BROADCAST_MKDIR = 1 << 9,
	/* A rank that cannot write does without; the others get theirs. Not with ALL_OR_NONE. */
	CKPT_BROADCAST_KEEP_GOING = 1 << 10,
	/*
	 * If one rank cannot give the names, the others remove what they have just named. Files
	 * that were replaced by it are lost.
	 */
	CKPT_BROADCAST_ALL_OR_NONE = 1 << 11,
	/*
	 * Ranks that read do so past the page cache (O_DIRECT), where the file system can. Without both of these flags: of what is not
	 * cached, if it goes to a GPU. CACHED: never.
	 */
	CKPT_BROADCAST_DIRECT = 1 << 12,
	CKPT_BROADCAST_CACHED = 1 << 13,
};

/*
 * A transport of the program's own, for programs that have already joined their processes by
 * torch.distributed, an MPI communicator or the like. All ranks make the same calls in the same
 * order, from the thread that called ckpt_broadcast(). 0 is success. It is for the callbacks to
 * notice, where they wait, that a rank does not answer.
 */
struct ckpt_collectives {
	size_t size;
	uint32_t rank, world_size;
	/*
	 * Send the NBYTES at BUFFER from rank ROOT to all ranks. BUFFER is in the memory of the
	 * host, or with ON_GPU in that of this process's GPU (ckpt_broadcast_options.gpu). With
	 * ON_GPU the call only enqueues the work in STREAM, a CUstream or cudaStream_t, and need
	 * not wait; all of the work must be in STREAM, or STREAM must wait for it (in torch: make it
	 * the current stream by torch.cuda.ExternalStream, and wait() for what is asynchronous). A
	 * call that throws or jumps out of ckpt_broadcast() leaves the other ranks waiting: return
	 * an error instead. Without ON_GPU STREAM is NULL, and the bytes have arrived when it
	 * returns.
	 */
	int (*broadcast)(void *ctx, void *buffer, size_t nbytes, uint32_t root, void *stream);
	bool on_gpu;
	/* Replace each of the COUNT numbers by the maximum of all ranks. */
	int (*allreduce_max)(void *ctx, uint64_t *numbers, size_t count);
	void *ctx;
};

struct ckpt_broadcast_options {
	size_t size;
	unsigned flags;
	/*
	 * Which process of the job this is. NULL and -1: found in the variables of launchers. A
	 * name in LAUNCHER says whose variables count.
	 */
	const char *launcher;
	int64_t rank, world_size, local_rank;
	const char *job_key;   /* up to 500 bytes, the same for all ranks of one start of the job */
	const char *transport; /* "self", "mpi", "nccl", "ucx", "tcp"; NULL: what is there */
	uint32_t readers;      /* ranks 0 .. readers - 1 read, in turn; 0: one */
	uint64_t chunk;	       /* bytes; 0: 1 MiB, to GPUs 8, to one 4, less for small sources and for many ranks */
	uint32_t depth;	       /* chunks in memory; 0: 4 to 16, for 16 MiB, to a GPU 128 */
	uint32_t threads;      /* that read and write, for each rank; 0: 4 to 8, to a GPU 12 */
	double timeout_s;      /* without a byte, or an answer; 0: 60 s */
	/* On rank 0 alone: the others are as far. */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	const volatile int *cancel; /* not 0: all ranks end; see "Threads" in ckpt.h */
	/* number of this process's GPU; -1: the local rank modulo the number of GPUs */
	int64_t gpu;
	const struct ckpt_collectives *collectives; /* NULL: transports of ckpt's own */
	/*
	 * How the ranks meet before anything is carried: "mpi", "pmix", "file:DIR" with a folder
	 * that all of them see, "tcp://HOST:PORT" where rank 0 listens, "env" for
	 * tcp://$MASTER_ADDR and $CKPT_RDZV_PORT (else $MASTER_PORT + 1), or "id:HEX", the 256 hex
	 * digits of an ncclUniqueId that was made by a process that goes on living. NULL: by what
	 * their launcher offers, else in $CKPT_RDZV_DIR or $SLURM_SUBMIT_DIR/.ckpt.
	 */
	const char *rendezvous;
	double init_timeout_s; /* until all ranks are there; 0: 120 s */
	/*
	 * Called last, before the ranks part, with the report and the error filled in. Some
	 * launchers end all ranks as soon as one has ended with an error, and drop what the others
	 * print after that.
	 */
	void (*ended)(void *ctx);
	void *ended_ctx;
	/* The CRC-32 of the single file: if not, CKPT_BROADCAST_DAMAGED. Not with NO_VERIFY. */
	bool has_expected;
	uint32_t expected_crc32;
	/*
	 * Who meets by tcp:// proves that it knows the job's token: the first line of this file, which
	 * nobody but its owner may read, or else $CKPT_TOKEN. 16 to 1024 bytes, the same on all ranks.
	 */
	const char *token_file;
	/* Whose address the transports tcp and ucx use on this host; NULL: the one that reaches rank 0. */
	const char *interface;
	/*
	 * The program has found out that it cannot take part, for this reason: the other ranks are told,
	 * if they wait by tcp:// or file:DIR, and the call fails with it (CKPT_E_ARG) as theirs do. NULL:
	 * it takes part.
	 */
	const char *failure;
	/*
	 * Bytes a second that the ranks which read may read and send, all of them together; at least 64 KiB for each. 0: no limit.
	 * The same on all ranks. It is kept within 100 ms, for which chunks may become smaller than CHUNK.
	 */
	uint64_t bandwidth;
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
	bool reused;			  /* all ranks had it already; nothing was read */
	uint32_t files;
	uint64_t nbytes; /* of all files */
	bool has_crc;
	uint32_t crc32; /* of the single file */
	double seconds; /* from the first byte to the last name */
	char host[64];
	char path[1024]; /* of what is now on this node */
	/* with CKPT_BROADCAST_TO_GPU: the caller's, for ckpt_gpu_release() */
	struct ckpt_gpu_copy *gpu;
	/* what of the job makes it slower than it needs to be, in a sentence, the node whose disk all waited for, say; "": nothing known */
	char advice[256];
	/* what the transport ucx chose for the way to the next rank, "tcp/eth0, self"; "" of others */
	char network[128];
	/* of a directory, on rank 0: links to folders, which are not copied; the first of them, by its path in SOURCES, as it is shown */
	uint32_t links_left_out;
	char first_left_out[84];
	/* why the copy on this node has no note, so that the next broadcast copies again and nothing evicts it; "": it has one */
	char no_note[256];
};
#define CKPT_BROADCAST_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_broadcast_report), .launcher = "none", .transport = "" \
	}

/*
 * Bring files to every node of a job. All of its processes call it with the same arguments. The
 * first READERS ranks read each byte of the sources once; it is sent to all ranks; the first
 * process of every node writes it. Nothing gets its final name before all ranks have all bytes with
 * the right checksums, and if one rank fails, none of them gives a name.
 *
 * SOURCES: files, or one directory, which is copied with all files below it; links to files are followed, links to folders are left out (see the report). DESTINATION: a path,
 * the same for all ranks except for what is filled in: %h host, %n number of the node, %r rank,
 * %l local rank, %j job key, %u user, %b name of the source, %% a percent sign. It may be NULL with
 * CKPT_BROADCAST_TO_GPU and NO_TARGET. Several files need a folder that exists; so does a path that
 * ends with '/'. If it has neither %r nor %l, only the process with local rank 0 writes.
 *
 * Returns 0, or an error of this rank, or the one that all ranks were told; REPORT->code says what
 * kind. Blocks until all ranks are done or a peer was silent for too long. Only one thread of a
 * process may call it at a time; with `collectives` or the `rendezvous` id:HEX, one for each rank.
 * It reads the environment (launchers, CKPT_*, UCX_*) and never changes it: a program sets NCCL_* and
 * CUDA_MODULE_LOADING itself, before it starts threads. NCCL_COMM_BLOCKING=1, and an NCCL_ALGO that
 * has no Ring for broadcasts, are refused. Over UCX, SIGABRT is taken meanwhile, since UCX may call abort() where a rank is
 * lost, and given back; another thread's abort() ends as it would have.
 *
 * NCCL is not safe for operations of two communicators on one GPU at a time from two threads: with
 * the transport nccl no other operation of NCCL may run on this GPU meanwhile. COLLECTIVES uses the
 * program's own communicator. After a failed call of NCCL (2.28 and others), later calls of NCCL in
 * the same thread may do nothing: call ckpt_broadcast() from a thread of its own to be safe.
 */
CKPT_API int ckpt_broadcast(const char *const *sources, size_t count, const char *destination,
			    const struct ckpt_broadcast_options *options,
			    struct ckpt_broadcast_report *report, struct ckpt_error *err);

/*
 * Copies that ckpt_broadcast() has staged take room until they are removed. A copy is known by its note: .NAME.ckpt-staged
 * beside a file, .ckpt-staged in a directory, .ckpt-staged-files in the folder of several files, which are one copy.
 */
enum ckpt_evict_flags {
	CKPT_EVICT_DRY_RUN = 1 << 0, /* say what would be removed */
};

enum ckpt_evict_what {
	CKPT_EVICT_REMOVED = 1,	  /* a copy and its note, or with DRY_RUN one that would be */
	CKPT_EVICT_LEFT_OVER = 2, /* the same of .NAME.*.ckpt-tmp, whose writer has ended */
	CKPT_EVICT_IN_USE = 3,	  /* it stays: a process has it open or mapped, or another one evicts it */
	CKPT_EVICT_CHANGED = 4,	  /* it stays: it is not what its note says, or belongs to somebody else */
	CKPT_EVICT_FAILED = 5,	  /* it, or a part of it, could not be removed */
};

struct ckpt_evicted {
	size_t size;
	const char *path;     /* valid during the call: below the folder as it was given; of several files their note */
	uint64_t nbytes;      /* that it takes on the disk, or took; 0 of CHANGED */
	int64_t used_sec;     /* when it was last used, by time(); 0: not known */
	enum ckpt_evict_what what;
	int process;	      /* of IN_USE: who has it, as far as that is seen; else 0 */
	int error;	      /* of FAILED: the errno; else 0 */
	uint32_t reserved;    /* 0 */
};

struct ckpt_evict_options {
	size_t size;
	double older_than_s; /* only what was last used so long ago */
	uint64_t keep_free;  /* bytes: only until so much is free on the folder's file system, oldest first; 0: all */
	/* For each of enum ckpt_evict_what. */
	void (*each)(void *ctx, const struct ckpt_evicted *copy);
	void *ctx;
	const volatile int *cancel; /* see "Threads" in ckpt.h */
	unsigned flags;
	uint32_t reserved; /* 0 */
};
#define CKPT_EVICT_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_evict_options) \
	}

struct ckpt_evict_report {
	size_t size;
	uint64_t copies, left_overs, nbytes; /* that were removed, or would be */
	uint64_t in_use, changed, failed;    /* that stay */
	uint64_t reserved;
};
#define CKPT_EVICT_REPORT_INIT \
	{ \
		.size = sizeof(struct ckpt_evict_report) \
	}

/*
 * Remove staged copies that stand in FOLDERS themselves, not in folders below them, and what killed runs left there. A copy
 * was last used at the newest of the times of its files (atime, mtime) and of its note, which a broadcast that finds the copy
 * sets. With `older_than_s` and `keep_free` both hold.
 *
 * What must stay true: nothing is removed but what a note lists, and that only if size, inode and mtime of each file are
 * those of the note, and all of it has one owner, who is the caller, or the caller is root. No link is followed. What a
 * process has open or mapped stays, as far as /proc shows it: other users' processes only to root, those of other machines
 * and of containers with other process ids never. Who is not seen keeps what it has open; its room is free when it ends. A
 * copy disappears by one rename. Safe beside a broadcast: what that writes is locked or new, and what it has just found there
 * has a new time. More than one may run at once.
 *
 * Returns 0, also if something stays; CKPT_E_IO if one of FOLDERS cannot be read, CKPT_E_UNSUPPORTED if there is no
 * /proc, CKPT_E_ARG, CKPT_E_NOMEM, CKPT_E_CANCELLED; the report then has what was done so far.
 */
CKPT_API int ckpt_evict_staged(const char *const *folders, size_t count, const struct ckpt_evict_options *options,
			       struct ckpt_evict_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif

#endif
