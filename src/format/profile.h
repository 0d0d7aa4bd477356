/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_PROFILE_H
#define CKPT_FORMAT_PROFILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the generations of torch.save write. Source: files written by torch 1.7, 1.13, 2.6 and
 * 2.14; the versions between from torch's change log.
 */
struct ckpt_profile {
	const char *since;   /* first version, which names the profile */
	const char *writers; /* for messages */
	uint32_t major, minor;
	bool always_archive;   /* archive name is "archive", never the file's name */
	bool address_keys;     /* keys are addresses, spelled out at every mention */
	bool numeric_order;    /* data/2 before data/10 */
	bool byteorder;	       /* record `byteorder` */
	bool serialization_id; /* record `.data/serialization_id` */
	bool format_version;   /* records `.format_version`, `.storage_alignment` */
	bool ascii_path_only;  /* a path that is not ASCII gives "archive" */
	bool is_coalesced;     /* sparse tensors carry the flag */
	bool differentiable;   /* optimizers get this default where they have none */
	bool empty_apart;      /* storages without bytes are never shared */
	bool heap_generator;   /* see ckpt_pickle_options.heap_generator */
	bool prepared_keys;    /* see ckpt_resave_options.prepared_keys */
	/* habits of the Python that the Debian releases with these versions have */
	bool python311, python313;
};

enum { CKPT_PROFILE_COUNT = 5, CKPT_PROFILE_NEWEST = CKPT_PROFILE_COUNT - 1 };

/* Oldest first. */
extern const struct ckpt_profile ckpt_profiles[CKPT_PROFILE_COUNT];

/*
 * The profile of a version, such as "2.6". NULL: torch has no such version, or it had no zip
 * form yet.
 */
const struct ckpt_profile *ckpt_profile_find(const char *version);

/* The profile of a file's writer, judging by its records. */
const struct ckpt_profile *ckpt_profile_detect(bool format_version, bool serialization_id,
					       bool byteorder, bool named_archive,
					       bool sequential_keys);

/*
 * The archive name that torch derives from PATH: the part after the last slash or backslash, cut
 * at its last dot. NAME has room for SIZE bytes. CKPT_E_OUTPUT if nothing is left (".pt").
 */
int ckpt_profile_archive_name(const struct ckpt_profile *profile, const char *path, char *name,
			      size_t size, struct ckpt_error *err);

#endif
