/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_SESSION_H
#define CKPT_BROADCAST_SESSION_H

#include "broadcast/agree.h"
#include "broadcast/landing.h"
#include "broadcast/manifest.h"
#include "broadcast/ring.h"
#include "gpu/copy.h"
#include "job/rendezvous.h"

#include <ckpt/broadcast.h>

/* One rank's part in one broadcast. */
struct ckpt_session {
	struct ckpt_broadcast_options o; /* standards filled in */
	const char *const *sources;	 /* borrowed */
	size_t source_count;
	const char *wish;		     /* borrowed: the destination as it was given */
	struct ckpt_collectives collectives; /* if the options have some */
	struct ckpt_world world;
	struct ckpt_rendezvous
		*rendezvous;	/* owned; NULL: the ranks did not need one, or not any more */
	struct ckpt_cuda *cuda; /* owned; the transport's GPU, if it has one */
	struct ckpt_agreement agreement;
	struct ckpt_manifest manifest;
	char *path; /* owned: on this node; NULL: nothing is written here */
	struct ckpt_landing *landing;
	struct ckpt_gpu_copy *gpu; /* owned until the report has it */
	struct ckpt_ring *ring;
	char **paths;			     /* owned: of the sources' files */
	uint32_t *crcs;			     /* owned: by file */
	struct ckpt_transport *met_over;     /* owned: what the ranks have met over in vain */
	bool standard_chunk, standard_depth; /* none was asked for */
	bool reused;
	bool named;		/* names were given: it cannot be stopped any more */
	bool dropped;		/* cannot write, and goes on without */
	char dropped_text[900]; /* why */
	char *folder,
		*made; /* owned: around what is written, and the outermost that was made for it */
	int code;      /* enum ckpt_broadcast_code: what was agreed upon last */
	struct ckpt_error err;
};

/* Everything but the world. */
int ckpt_session_init(struct ckpt_session *session, const char *const *sources, size_t count,
		      const char *destination, const struct ckpt_broadcast_options *options);

/* The number of this process's GPU. */
int ckpt_session_gpu(struct ckpt_session *session, uint32_t *ordinal);

/* All that has to be the same on all ranks, in one number. */
uint64_t ckpt_session_wishes(const struct ckpt_session *s);

/* How large chunks are, and how many of them, where nobody has asked for it. */
void ckpt_session_choose_chunks(struct ckpt_session *s, bool on_gpu);

#endif
