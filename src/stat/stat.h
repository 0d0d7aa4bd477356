/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_STAT_STAT_H
#define CKPT_STAT_STAT_H

#include "model/patterns.h"
#include "stat/select.h"
#include "stat/view.h"

#include <ckpt/stat.h>

#include <pthread.h>

enum { CKPT_STAT_MOST_BINS = 4096 };

/* Quantiles of something. */
struct ckpt_stat_quantiles {
	struct ckpt_select *select; /* malloc; while they are looked for, else NULL */
	const double *values;	    /* arena; NULL: not found yet, or there are none */
};

/*
 * One tensor or array of numpy, and its statistics. Strings and arrays are the model's, or in the
 * arena.
 */
struct ckpt_stat_job {
	const char *name, *kind, *dtype, *layout;
	const struct ckpt_value *value;
	uint32_t ndim, looked_ndim;
	const uint64_t *shape, *looked_shape;
	uint64_t nbytes;
	const char *why_not;	 /* nothing was read; or NULL */
	bool unreadable;	 /* ... though it has values */
	enum ckpt_dtype numbers; /* dtype of what was read */
	bool counted;		 /* in the totals */
	uint32_t group;		 /* if there are any */
	bool counted_in_group;	 /* no other one of it shows these values, too */
	uint32_t
		same_as; /* the job that is read for this one, as it shows the same; itself: none */
	uint32_t next_same; /* another one that is read with it; UINT32_MAX: none */
	uint64_t repeat; /* how often the values that were read occur */
	struct ckpt_tally tally;
	struct ckpt_stat_bins bins;
	uint32_t sum; /* of its dtype */
	struct ckpt_stat_quantiles quantiles;
};

struct ckpt_stat_sum {
	const char *dtype; /* NULL: all, or several */
	enum ckpt_dtype numbers;
	uint64_t items;
	const char *name; /* of a group, as what follows */
	uint64_t nbytes, unreadable;
	bool has_dtype; /* of the first that is in its figures */
	bool has_more; /* than counters, which then are left out of its figures */
	struct ckpt_tally tally;
	struct ckpt_stat_bins bins;
	struct ckpt_stat_quantiles quantiles;
};

enum { CKPT_STAT_MOST_SELECTS = 1024 };

struct ckpt_stat {
	const struct ckpt_model *model; /* borrowed */
	struct ckpt_stat_options options;
	struct ckpt_arena *arena;   /* owned */
	struct ckpt_stat_job *jobs; /* malloc */
	uint32_t count, cap;
	struct ckpt_stat_sum *sums; /* malloc: all, and by dtype */
	uint32_t sum_count, sum_cap;
	struct ckpt_stat_sum *groups; /* malloc: by the first parts of names */
	uint32_t group_count, group_cap;
	double *codes[CKPT_DTYPE_COUNT]; /* arena: of the 8-bit dtypes that occur */
	/* those whose quantiles are looked for now, and where the others begin (quantiles.c) */
	struct ckpt_stat_quantiles *selecting[CKPT_STAT_MOST_SELECTS];
	uint32_t selecting_count;
	uint64_t next_target;
	uint32_t first_selected, end_selected; /* their numbers are those of these jobs */
};

/* List what is to be read (list.c). */
int ckpt_stat_list(struct ckpt_stat *stat, struct ckpt_error *err);

/*
 * Make groups of them, if there is a depth; take counters (integers without a dimension) out of the
 * figures of those that have more; add all tallies to these (groups.c).
 */
int ckpt_stat_group(struct ckpt_stat *stat, struct ckpt_error *err);
void ckpt_stat_leave_counters(struct ckpt_stat *stat);
void ckpt_stat_add_up_groups(struct ckpt_stat *stat);

/* Find those that share bytes: sets COUNTED, COUNTED_IN_GROUP and SAME_AS (extent.c). */
int ckpt_stat_find_shared(struct ckpt_stat *stat, struct ckpt_error *err);

/* A job that is open for reading (open.c). */
struct ckpt_stat_opened {
	struct ckpt_stat_job *job;
	struct ckpt_array *array, *part; /* owned; PART: of a sparse one, or NULL */
	struct ckpt_items items;	 /* in the order of reading */
	struct ckpt_stat_view view;
	struct ckpt_recipe recipe; /* of them; no bytes: there is nothing to read */
};

/* To be closed in any case. What can never be read gets a WHY_NOT, and 0 is returned. */
int ckpt_stat_open(struct ckpt_stat *stat, struct ckpt_stat_job *job, struct ckpt_stat_opened *out,
		   struct ckpt_error *err);
void ckpt_stat_close(struct ckpt_stat_opened *opened);

/* Read all of them: their tallies and the totals, then the bins (read.c). */
int ckpt_stat_read(struct ckpt_stat *stat, struct ckpt_error *err);

/*
 * Quantiles take several rounds, in each of which all that ckpt_stat_selects_from() says is read
 * (quantiles.c). Begin the next one: 1: there is one; 0: all are found; CKPT_E_NOMEM.
 */
int ckpt_stat_next_round(struct ckpt_stat *stat, struct ckpt_error *err);
bool ckpt_stat_selects_from(const struct ckpt_stat *stat, const struct ckpt_stat_job *job);
/* Add COUNT items of JOB, the first of them item FIRST. LOCK is held while anything is changed. */
void ckpt_stat_add_to_selects(struct ckpt_stat *stat, const struct ckpt_stat_job *job,
			      const struct ckpt_stat_view *view, uint64_t first,
			      const uint8_t *bytes, size_t count, pthread_mutex_t *lock);
void ckpt_stat_clear_selects(struct ckpt_stat *stat);

/* Add all tallies to the totals (stat.c). */
int ckpt_stat_add_up(struct ckpt_stat *stat, struct ckpt_error *err);

#endif
