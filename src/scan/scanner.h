/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one scan, from a file down to the pickles in the files in it: what was found, what may
 * still be looked at, and where. The parts of the scan share it; what one pickle needs alone is in
 * walk.h.
 *
 * What must stay true: budgets only shrink, so that time and memory are bounded whatever lies in what;
 * a finding only makes the verdict worse; whoever enters a record puts WHERE, DEPTH and the flags of
 * its surroundings back.
 */
#ifndef CKPT_SCAN_SCANNER_H
#define CKPT_SCAN_SCANNER_H

#include "base/strmap.h"
#include "io/source.h"
#include "scan/names.h"

/* What a pickle says of a storage. */
struct ckpt_scan_storage {
	uint64_t nbytes;
	uint32_t item_nbytes;
	int8_t dtype;	   /* enum ckpt_dtype, by its class */
	bool is_quantized; /* its items are numbers only with a quantizer */
};

/*
 * One file that is being scanned, and what was found. No memory is remembered in the scanner, not
 * returned.
 */
struct ckpt_scanner {
	struct ckpt_scan_file file; /* the lists are those below when it is done */
	struct ckpt_arena *arena;   /* owned: texts */
	struct ckpt_scan_global *globals;
	struct ckpt_scan_finding *findings;
	struct ckpt_scan_refusal *refusals;
	uint32_t global_count, global_cap, finding_count, finding_cap, refusal_count, refusal_cap;
	struct ckpt_strmap known; /* "where\0name" to the number of the global */
	struct ckpt_strmap objects; /* names of listed globals that need objects */

	const char *where;	/* the record that is looked at, escaped; "" */
	unsigned depth;		/* of files in files */
	uint64_t nested_budget; /* bytes of pickles in pickles that may still be looked into */
	uint64_t budget;	/* bytes that may still be unpacked, or scanned twice */
	uint64_t key_steps;	/* to compare keys */
	uint64_t made;		/* numbers of tensors that are made of others */
	uint64_t heavy;		/* bytes of objects that are large by themselves */
	uint64_t looked_at;	/* of what opcodes take: bytes of long texts, and sixteen for each item */
	uint64_t pickle_budget; /* bytes of pickles that may still be looked at */
	struct ckpt_strmap
		*storages; /* keys of the storages that a pickle mentions; NULL: nobody asks */
	/* of all pickles of a torch.package, which share them: as said in ckpt_scan_walk */
	struct ckpt_strmap *said_in_package;
	uint64_t result;   /* CKPT_TYPE_* of what the last legacy stream holds; of a storage: */
	struct ckpt_scan_storage result_storage;
	bool weights;	   /* what is scanned is what torch.load reads */
	uint8_t refused_opcodes[32]; /* bitmap */
	unsigned refused;	     /* by versions, as in ckpt_scan_refusal */
	/* of what torch.load gives its unpickler: some was gone through to its end, and some not, so that nothing is foretold */
	bool weights_seen, weights_cut;
	bool has_unlisted; /* the file imports what needs objects and is in no list */
	bool in_folder;	 /* it was met on a walk: what is no checkpoint is nothing to complain of */
	bool in_package; /* torch.package: pickles of any name may have persistent ids */
	bool is_unpacked; /* ... as a folder: nobody has looked at the storages of its pickles */
	bool in_fragment; /* what is looked at may begin in the middle of something */
	bool is_one;	  /* of a kind that can hold code; else it is passed over on a walk */
	/*
	 * of torch.load's own pickle, and of others: numbers that are taken for places in memory
	 * (indices.c)
	 */
	bool has_places, has_places_inside;
	bool drops_objects; /* torch.load's own pickle makes some that are not in what it gives back */
	bool has_packed_storage; /* compressed: torch.load(mmap=True) takes the bytes as they are */
	bool has_wide_numbers; /* some pickle names a dtype or class of numbers of 16 bytes */
	bool no_memory;
	const volatile int *cancel;
	struct ckpt_error *err; /* of the system; the first that was met */
	int rc;
};

int ckpt_scanner_init(struct ckpt_scanner *s, const char *path);
void ckpt_scanner_clear(struct ckpt_scanner *s);

/* The file has so many bytes: limits that grow with it. Before anything is found. */
int ckpt_scanner_set_size(struct ckpt_scanner *s, uint64_t nbytes);

/* The verdict, and the lists in s->file. */
void ckpt_scanner_finish(struct ckpt_scanner *s);

/* Something was found at OFFSET of s->where. PATH may be NULL. */
void ckpt_scan_find(struct ckpt_scanner *s, enum ckpt_scan_verdict verdict, const char *kind,
		    uint64_t offset, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* What ended it was no lack of memory but the limit of what is kept of a file: says so. */
bool ckpt_scan_is_full(struct ckpt_scanner *s);

/*
 * A global is named at OFFSET of s->where. Returns its entry, to be marked, which may move with the
 * next; NULL: no room.
 */
struct ckpt_scan_global *ckpt_scan_add_global(struct ckpt_scanner *s, const struct ckpt_global *g,
					      uint64_t offset, enum ckpt_scan_kind kind);

/* weights_only refuses. GLOBAL: what is not allowed, or NULL. */
void ckpt_scan_refuse(struct ckpt_scanner *s, unsigned versions, const struct ckpt_global *global,
		      uint64_t offset, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* "module.name", escaped, into BUF. */
const char *ckpt_scan_show_global(const struct ckpt_global *g, char *buf, size_t size);

/* s->where becomes "where::NAME" until it is set back to what is returned. NAME is escaped here. */
const char *ckpt_scan_enter(struct ckpt_scanner *s, const char *name, size_t len);

bool ckpt_scan_is_cancelled(const struct ckpt_scanner *s);

/* ---- pickles (pickle.c) ---- */

enum ckpt_scan_pickle_flags {
	CKPT_SCAN_STORAGES = 1 << 0, /* a persistent id is what torch makes of it */
	CKPT_SCAN_TAR_IDS = 1 << 1,  /* ... of torch 0.1: the number of a tensor */
	CKPT_SCAN_PROBED =
		1 << 2, /* it only looks like a pickle: an end that is none is no finding */
	/*
	 * of a stream: torch reads the bytes of storages behind it. What looks at them, or copies
	 * them, while the pickle runs takes what was in memory.
	 */
	CKPT_SCAN_NUMBERS_LATER = 1 << 3,
	CKPT_SCAN_PROSE =
		1
		<< 4, /* text, by its name, too: four letters behind an "r" are no number that anybody wrote */
	CKPT_SCAN_CUT = 1 << 5, /* there is more of it than is looked into */
};

struct ckpt_scan_pickle {
	const uint8_t *bytes;
	size_t len;
	uint64_t base; /* added to offsets */
	unsigned flags;
	/* out: */
	size_t end;   /* behind STOP, or where it broke off */
	bool stopped; /* STOP was reached */
	bool gave_up; /* not all of it was looked at */
	bool imports; /* a module that there may be, or one above it: Python runs it, whatever comes of what is named in it */
	uint64_t result; /* CKPT_TYPE_* of what a load of it gives; 0: not known. Of a storage: */
	struct ckpt_scan_storage result_storage;
};

/* One pickle, as far as it goes. */
void ckpt_scan_one_pickle(struct ckpt_scanner *s, struct ckpt_scan_pickle *pickle);

/*
 * Pickles one behind the other, and what is behind the last. MOST: as many are expected; more are a
 * finding.
 */
void ckpt_scan_pickles(struct ckpt_scanner *s, const struct ckpt_scan_pickle *first, unsigned most);

/*
 * Do the bytes begin with a program that an unpickler would run? Sure without the signature of
 * protocol 2 and later, if it imports or calls.
 */
bool ckpt_scan_looks_like_pickle(const uint8_t *bytes, size_t len);

/* ... or are they nothing but opcodes, to STOP or to where they are cut off, or to behind the first that imports? */
bool ckpt_scan_may_go_on(const uint8_t *bytes, size_t len);

enum ckpt_scan_break {
	CKPT_SCAN_BREAKS_OFF,
	CKPT_SCAN_MAY_GO_ON,
	CKPT_SCAN_BEHIND,  /* it goes on behind bytes, of which these are the first */
};

/*
 * Does an unpickler break off in the LEN bytes of a file, whatever follows them, before it imports anything? *BEHIND: where it would go
 * on, from BYTES on.
 */
enum ckpt_scan_break ckpt_scan_breaks_off(const uint8_t *bytes, size_t len, bool is_beginning, uint64_t *behind);

/*
 * Does a file of SIZE bytes, of which the first LEN are these, begin with a pickle in which torch's magic number is, by whatever
 * opcode, and which ends before the file does (loaders/first_pickle.c)?
 */
enum ckpt_scan_beginning {
	CKPT_SCAN_NO_STREAM,
	CKPT_SCAN_STREAM,
	CKPT_SCAN_NOT_YET, /* they end before it does */
};

enum ckpt_scan_beginning ckpt_scan_begins_stream(const uint8_t *bytes, size_t len, uint64_t size);

/* The same of a whole file. NOT_YET: of so many bytes in files in files nobody looks at any more. */
enum ckpt_scan_beginning ckpt_scan_first_pickle(struct ckpt_scanner *s, struct ckpt_source *source);

/* Where a pickle ends, or all that torch.load reads, which begins with one. */
enum ckpt_scan_reach {
	CKPT_SCAN_ENDS_BEFORE, /* ... END, or breaks off there */
	CKPT_SCAN_GOES_ON,     /* behind END */
	CKPT_SCAN_GOES_FAR,    /* behind LIMIT, or to the storages of a stream of torch */
};

/* SOURCE to an unpickler that reads on, though END bytes of it are meant to be all (loaders/first_pickle.c). END <= LIMIT <= its size. */
enum ckpt_scan_reach ckpt_scan_reach_of(struct ckpt_scanner *s, struct ckpt_source *source, uint64_t end, uint64_t limit);

/* ---- files (file.c, and loaders/, which has what each loader would read) ---- */

enum ckpt_scan_file_flags {
	CKPT_SCAN_TOP = 1 << 0,	      /* the file itself, which torch.load would be given */
	CKPT_SCAN_PART = 1 << 1,      /* of something larger: of no kind is nothing to complain of */
	CKPT_SCAN_UNPICKLED = 1 << 2, /* ... of which its end is not known: it is a pickle, or a stream of torch, or nothing */
	CKPT_SCAN_ROW = 1 << 3,	      /* a data file of DCP: archives may lie in it one behind the other */
};

/* Whatever SOURCE is. False: of no kind that holds code; then nothing was found. */
bool ckpt_scan_source(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags);

void ckpt_scan_zip(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags);
void ckpt_scan_tar(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags);
void ckpt_scan_legacy(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags);
void ckpt_scan_npy(struct ckpt_scanner *s, struct ckpt_source *source);
void ckpt_scan_mobile(struct ckpt_scanner *s, struct ckpt_source *source);

/* Does the file, if its name is that of an index of Hugging Face, lead out of its folder? Then that was said (leads_out.c). */
bool ckpt_scan_hf_index(struct ckpt_scanner *s, struct ckpt_source *source);

/* All of a small file, to be freed. NULL: it cannot be read, which was said. */
void *ckpt_scan_read_whole(struct ckpt_scanner *s, struct ckpt_source *source);

/*
 * Is the file the ".data/extern_modules" of an unpacked torch.package? What is odd of it is said. False: it is another file, or may be a
 * pickle as well (loaders/extern_modules.c).
 */
bool ckpt_scan_extern_modules_file(struct ckpt_scanner *s, struct ckpt_source *source);

/* The same of DeepSpeed's "latest". */
bool ckpt_scan_latest(struct ckpt_scanner *s, struct ckpt_source *source);

/*
 * The index of a DCP directory, which lies beside its data files: are its items what is looked
 * into? (loaders/dcp.c)
 */
void ckpt_scan_dcp_index(struct ckpt_scanner *s, struct ckpt_source *source);

/*
 * Read it as a checkpoint: is all there that its pickle says? Of files that torch.load reads, and of archives of torch.package
 * (proof.c). FLAGS: CKPT_SCAN_TOP or CKPT_SCAN_PART. The second is for what is inside of something, if nothing speaks against it yet.
 */
void ckpt_scan_prove(struct ckpt_scanner *s, struct ckpt_source *source, unsigned flags);
void ckpt_scan_prove_part(struct ckpt_scanner *s, struct ckpt_source *source);

/*
 * Do indices of sparse tensors lie in these, and positions of generators in their states? 0, or
 * what to give to ckpt_scan_failed() (indices.c)
 */
struct ckpt_model;
int ckpt_scan_check_indices(struct ckpt_scanner *s, const struct ckpt_model *model, struct ckpt_error *err);

/* A step failed: what the system says ends it all, what the file is to blame for is a finding. */
void ckpt_scan_failed(struct ckpt_scanner *s, int rc, const struct ckpt_error *err);

#endif
