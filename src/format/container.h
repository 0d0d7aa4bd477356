/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_CONTAINER_H
#define CKPT_FORMAT_CONTAINER_H

#include "io/source.h"
#include "zipfmt/index.h"

/*
 * Files inside of zip archives, as Stable-Baselines3 and others keep checkpoints:
 * best_model.zip::policy.pth. Archives may be inside archives. If the name of a file has "::" in
 * it, that file is meant.
 */

/*
 * Open the file at PATH, or one inside it (*INSIDE). A stored entry is read from the file
 * itself; a compressed one is unpacked to memory, in proportion to the file. CKPT_E_NOTFOUND,
 * with what there is instead, or as ckpt_source_open().
 */
int ckpt_container_open(const char *path, struct ckpt_source **out, bool *inside,
			struct ckpt_error *err);

/* The bytes of ENTRY of ZIP as a source of its own. ROOT: the outermost file. */
int ckpt_container_open_entry(struct ckpt_zip *zip, struct ckpt_zip_entry *entry,
			      struct ckpt_source *root, struct ckpt_source **out,
			      struct ckpt_error *err);

#endif
