/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which transport carries, decided by rank 0 from the hellos of all: what of a hello does not fit
 * the first one, or what a rank lacks, in one sentence with the rank it is about.
 *
 * What must stay true: this is a function of the hellos alone, and every rank obeys its result. A
 * rank that decided for itself would wait in one library for others that wait in another.
 */
#include "broadcast/meet.h"

#include "base/text.h"
#include "gpu/cuda_driver.h"
#include "gpu/nccl_library.h"

#include <ckpt/broadcast.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * What of the first hello does not fit, or what a rank lacks: one sentence, with the rank it is
 * about.
 */

#define WHO "rank %" PRIu32 " (%s)"

static bool differs(const struct ckpt_meet_hello *a, const struct ckpt_meet_hello *h, enum ckpt_meet_wish wish)
{
	return a->each_wish[wish] != h->each_wish[wish];
}

/* Both names are said: one of the two is old, or was mistyped. */
static int fail_other_name(const struct ckpt_meet_hello *a, const struct ckpt_meet_hello *h, bool is_source,
			   struct ckpt_error *err)
{
	const char *what = is_source ? "SRC" : "DST", *ours = is_source ? a->sources : a->destination;
	const char *theirs = is_source ? h->sources : h->destination;
	char one[130], other[130];

	return ckpt_fail(err, CKPT_E_PEER, WHO " was started with %s '%s', " WHO " with '%s': give all ranks the same; %s",
			 h->rank, h->host, what, ckpt_escape(one, sizeof(one), theirs, strlen(theirs)), a->rank, a->host,
			 ckpt_escape(other, sizeof(other), ours, strlen(ours)),
			 is_source ? "only rank 0 has to have it" : "%r in DST is the rank, %h the host");
}

/* Appends, with a comma between, unless it is there. */
static void add_name(char *text, size_t size, const char *name)
{
	size_t len = strlen(text);

	if (!strstr(text, name))
		snprintf(text + len, size - len, "%s%s", len ? ", " : "", name);
}

static void add_flags(char *text, size_t size, uint32_t flags)
{
	static const struct {
		uint32_t flags;
		const char *name;
	} options[] = {
		{ CKPT_BROADCAST_NO_TARGET | CKPT_BROADCAST_TO_GPU, "--target" },
		{ CKPT_BROADCAST_NO_VERIFY | CKPT_BROADCAST_REREAD, "--verify" },
		{ CKPT_BROADCAST_REPLACE | CKPT_BROADCAST_NEW, "--if-exists" },
		{ CKPT_BROADCAST_NO_SYNC, "--no-sync" },
		{ CKPT_BROADCAST_MKDIR, "--mkdir" },
		{ CKPT_BROADCAST_KEEP_GOING, "--keep-going" },
		{ CKPT_BROADCAST_ALL_OR_NONE, "--all-or-none" },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (flags & options[i].flags)
			add_name(text, size, options[i].name);
}

static int fail_other_wishes(const struct ckpt_meet_hello *a, const struct ckpt_meet_hello *h,
			     struct ckpt_error *err)
{
	static const char *const names[CKPT_WISHES] = {
		[CKPT_WISH_SIZE] = "the number of ranks",
		[CKPT_WISH_CHUNK] = "--chunk or --bandwidth",
		[CKPT_WISH_DEPTH] = "--depth",
		[CKPT_WISH_READERS] = "--readers",
		[CKPT_WISH_EXPECT] = "--expect",
	};
	char text[240] = "";

	if (differs(a, h, CKPT_WISH_SOURCES) || differs(a, h, CKPT_WISH_DST))
		return fail_other_name(a, h, differs(a, h, CKPT_WISH_SOURCES), err);
	for (int i = 0; i < CKPT_WISHES; i++)
		if (names[i] && differs(a, h, (enum ckpt_meet_wish)i))
			add_name(text, sizeof(text), names[i]);
	add_flags(text, sizeof(text), a->flags ^ h->flags);
	return ckpt_fail(err, CKPT_E_PEER,
			 WHO " was started with other options than " WHO "%s%s%s: give all ranks the same", h->rank,
			 h->host, a->rank, a->host, *text ? " (" : "", text, *text ? ")" : "");
}

static int compare_hellos(const struct ckpt_meet_hello *a, const struct ckpt_meet_hello *h,
			  struct ckpt_error *err)
{
	if (strcmp(h->version, a->version) != 0)
		return ckpt_fail(err, CKPT_E_PEER,
				 WHO " is ckpt %s, " WHO " is ckpt %s: start the same on all nodes",
				 h->rank, h->host, h->version, a->rank, a->host, a->version);
	if (h->protocol != a->protocol)
		return ckpt_fail(err, CKPT_E_PEER,
				 WHO " speaks protocol %" PRIu32 " of ckpt broadcast, " WHO
				     " speaks %" PRIu32 ": start the same ckpt on all nodes",
				 h->rank, h->host, h->protocol, a->rank, a->host, a->protocol);
	return h->wishes != a->wishes ? fail_other_wishes(a, h, err) : 0;
}

/* ---- what NCCL needs ---- */

static int check_gpu(const struct ckpt_meet_hello *h, struct ckpt_error *err)
{
	int count = h->cuda.gpu_count;

	if (!h->cuda.has_driver || count <= 0)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, WHO ": %s", h->rank, h->host,
				 h->cuda.text);
	if (h->gpu >= count)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 WHO " is to use GPU %" PRId64
				     ", but sees %d, from 0 on: give it another --gpu",
				 h->rank, h->host, h->gpu, count);
	/* one GPU may be the one that the launcher shows to this process only */
	if (h->gpu < 0 && count > 1 && h->local_rank >= (uint32_t)count)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 WHO
				 " has local rank %" PRIu32
				 ", but its node shows %d GPUs: start one process for each GPU, or "
				 "for each node",
				 h->rank, h->host, h->local_rank, count);
	return 0;
}

static int check_library(const struct ckpt_meet_hello *h, struct ckpt_error *err)
{
	char version[16];

	if (!h->nccl.is_there)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, WHO ": %s", h->rank, h->host,
				 h->nccl.text);
	if (h->nccl.cuda_major && h->cuda.driver_version &&
	    h->cuda.driver_version / 1000 < h->nccl.cuda_major)
		return ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			WHO ": the NCCL at %.200s was built for CUDA %d, the driver supports %s: "
			    "set CKPT_NCCL_LIB to one for CUDA %d",
			h->rank, h->host, h->nccl.path, h->nccl.cuda_major,
			ckpt_cuda_version_text(h->cuda.driver_version, version),
			h->cuda.driver_version / 1000);
	return 0;
}

static int compare_nccl(const struct ckpt_meet_hello *a, const struct ckpt_meet_hello *h,
			struct ckpt_error *err)
{
	char one[16], other[16];

	if (h->nccl.version == a->nccl.version)
		return 0;
	return ckpt_fail(err, CKPT_E_PEER,
			 WHO " has NCCL %s (%.120s), " WHO
			     " has %s (%.120s): give all nodes the same library with CKPT_NCCL_LIB",
			 h->rank, h->host, ckpt_nccl_version_text(h->nccl.version, one),
			 h->nccl.path, a->rank, a->host,
			 ckpt_nccl_version_text(a->nccl.version, other), a->nccl.path);
}

/*
 * NCCL takes a GPU once in a communicator, and tells only those that share it. It goes by the place
 * on the PCI bus, so two slices of a GPU (MIG) are one GPU for it. Where the user says that ranks
 * are on different hosts (NCCL_HOSTID), or may share, there is nothing to refuse.
 */
static int check_shared_gpu(const struct ckpt_meet_hello *a, const struct ckpt_meet_hello *h,
			    struct ckpt_error *err)
{
	if (!h->identity.bus[0] || !h->machine[0] || strcmp(a->machine, h->machine) != 0 ||
	    strcmp(a->identity.bus, h->identity.bus) != 0 ||
	    strcmp(a->nccl_host, h->nccl_host) != 0 ||
	    (a->shares && h->shares && h->nccl.version >= 23000))
		return 0;
	if (strcmp(a->identity.uuid, h->identity.uuid) != 0)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 WHO " and " WHO
				     " use two MIG slices (%s, %s) of the GPU at %s, which NCCL "
				     "takes only once: give each rank a GPU of its own, or use one "
				     "rank",
				 a->rank, a->host, h->rank, h->host, a->identity.uuid,
				 h->identity.uuid, h->identity.bus);
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 WHO " and " WHO
			     " both use %s at %s: give each rank its own with --gpu, LOCAL_RANK or "
			     "the launcher",
			 a->rank, a->host, h->rank, h->host, h->identity.uuid, h->identity.bus);
}

/* 0, or the first rank for which NCCL cannot work is in *RANK. */
static int check_nccl(const struct ckpt_meet_hello *hellos, uint32_t count, uint32_t *rank,
		      struct ckpt_error *err)
{
	for (*rank = 0; *rank < count; ++*rank) {
		int rc = check_gpu(&hellos[*rank], err);

		if (rc == 0)
			rc = check_library(&hellos[*rank], err);
		if (rc == 0)
			rc = compare_nccl(&hellos[0], &hellos[*rank], err);
		for (uint32_t i = 0; rc == 0 && i < *rank; i++)
			rc = check_shared_gpu(&hellos[i], &hellos[*rank], err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- the decision ---- */

static int check_mpi(const struct ckpt_meet_hello *hellos, uint32_t count, uint32_t *rank,
		     struct ckpt_error *err)
{
	for (*rank = 0; *rank < count; ++*rank)
		if (!hellos[*rank].has_mpi)
			return ckpt_fail(err, CKPT_E_UNSUPPORTED,
					 "MPI cannot carry to " WHO
					 ": it was not started by mpirun or srun --mpi=pmix (if it was, "
					 "ckpt-mpi.so is missing beside ckpt)",
					 hellos[*rank].rank, hellos[*rank].host);
	return 0;
}

static int check_tcp(const struct ckpt_meet_hello *hellos, uint32_t count, uint32_t *rank,
		     struct ckpt_error *err)
{
	for (*rank = 0; *rank < count; ++*rank)
		if (hellos[*rank].no_tcp[0])
			return ckpt_fail(err, CKPT_E_UNSUPPORTED, WHO ": %s", hellos[*rank].rank,
					 hellos[*rank].host, hellos[*rank].no_tcp);
	return 0;
}

/* The ranks vote over TCP, and find each other's UCX by it. */
static int check_ucx(const struct ckpt_meet_hello *hellos, uint32_t count, uint32_t *rank,
		     struct ckpt_error *err)
{
	for (*rank = 0; *rank < count; ++*rank)
		if (!hellos[*rank].has_ucx)
			return ckpt_fail(err, CKPT_E_UNSUPPORTED,
					 "UCX cannot carry to " WHO
					 ": ckpt-ucx.so is missing beside ckpt there",
					 hellos[*rank].rank, hellos[*rank].host);
	return check_tcp(hellos, count, rank, err);
}

/* Somebody may have counted on the GPUs: it says why they do not carry. */
static void advise_on_unused_gpus(const struct ckpt_meet_hello *hellos, uint32_t count, const struct ckpt_error *why,
				  struct ckpt_meet_plan *plan)
{
	char text[sizeof(why->text)];

	for (uint32_t i = 0; i < count; i++)
		if (hellos[i].cuda.gpu_count > 0) {
			snprintf(plan->text, sizeof(plan->text), "the bytes go over %s, not from GPU to GPU: %.200s",
				 strcmp(plan->transport, "tcp") == 0 ? "TCP" : "UCX", ckpt_error_text(why, text, sizeof(text)));
			return;
		}
}

/* The best there is. If there is nothing, what NCCL lacks is said first. */
static int decide_best(const struct ckpt_meet_hello *hellos, uint32_t count,
		       struct ckpt_meet_plan *plan, struct ckpt_error *err)
{
	struct ckpt_error no_nccl = CKPT_ERROR_INIT, no_tcp = CKPT_ERROR_INIT;
	int rc = check_nccl(hellos, count, &plan->failed_rank, &no_nccl);
	char text[sizeof(no_tcp.text)];
	uint32_t rank;

	strcpy(plan->transport, "nccl");
	if (rc == 0)
		return rc;
	strcpy(plan->transport, "mpi");
	if (check_mpi(hellos, count, &rank, NULL) == 0)
		return 0;
	strcpy(plan->transport, "tcp");
	if (check_tcp(hellos, count, &rank, &no_tcp) == 0) {
		advise_on_unused_gpus(hellos, count, &no_nccl, plan);
		return 0;
	}
	ckpt_error_append(&no_nccl, "; %s", ckpt_error_text(&no_tcp, text, sizeof(text)));
	*err = no_nccl;
	return rc;
}

static int decide(const struct ckpt_meet_hello *hellos, uint32_t count, const char *wish,
		  struct ckpt_meet_plan *plan, struct ckpt_error *err)
{
	for (uint32_t i = 1; i < count; i++) {
		int rc = compare_hellos(&hellos[0], &hellos[i], err);

		plan->failed_rank = i;
		if (rc < 0)
			return rc;
	}
	if (!wish)
		return decide_best(hellos, count, plan, err);
	snprintf(plan->transport, sizeof(plan->transport), "%s", wish);
	if (!strcmp(wish, "nccl"))
		return check_nccl(hellos, count, &plan->failed_rank, err);
	if (!strcmp(wish, "ucx"))
		return check_ucx(hellos, count, &plan->failed_rank, err);
	if (!strcmp(wish, "tcp"))
		return check_tcp(hellos, count, &plan->failed_rank, err);
	return strcmp(wish, "mpi") ? 0 : check_mpi(hellos, count, &plan->failed_rank, err);
}

/* Launchers that show each rank its own GPU hide from NCCL how the others are reached. */
static void advise_on_hidden_gpus(const struct ckpt_meet_hello *hellos, uint32_t count,
				  struct ckpt_meet_plan *plan)
{
	const struct ckpt_meet_hello *a = &hellos[0];

	for (uint32_t i = 1; i < count; i++) {
		const struct ckpt_meet_hello *h = &hellos[i];

		if (!h->machine[0] || strcmp(a->machine, h->machine) != 0 ||
		    a->cuda.gpu_count != 1 || h->cuda.gpu_count != 1 ||
		    strcmp(a->identity.bus, h->identity.bus) == 0)
			continue;
		snprintf(plan->text, sizeof(plan->text),
			 WHO " and " WHO " are each shown one GPU only, so NCCL cannot use NVLink "
			     "between them: show all GPUs of a node to its ranks",
			 a->rank, a->host, h->rank, h->host);
		return;
	}
}

int ckpt_meet_decide(const struct ckpt_meet_hello *hellos, uint32_t count, const char *wish,
		     struct ckpt_meet_plan *plan, struct ckpt_error *err)
{
	struct ckpt_error why = CKPT_ERROR_INIT;

	*plan = (struct ckpt_meet_plan){ 0 };
	plan->status = decide(hellos, count, wish, plan, &why);
	if (plan->status == 0) {
		plan->failed_rank = 0;
		if (!strcmp(plan->transport, "nccl"))
			advise_on_hidden_gpus(hellos, count, plan);
		return 0;
	}
	ckpt_error_text(&why, plan->text, sizeof(plan->text));
	if (err)
		*err = why;
	return plan->status;
}
