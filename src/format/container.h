/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_CONTAINER_H
#define CKPT_FORMAT_CONTAINER_H

#include "io/source.h"
#include "zipfmt/index.h"

/*
 * Files inside of zip archives, as Stable-Baselines3 and others keep checkpoints: best_model.zip::policy.pth. Archives may
 * be in archives. A file whose own name has "::" in it is that file.
 */

/*
 * Open the file at PATH, or inside of one: then *INSIDE. What is stored is read from the file itself; what is compressed is
 * unpacked to memory, in proportion to the file. CKPT_E_NOTFOUND says what there is instead; else as ckpt_source_open().
 */
int ckpt_container_open(const char *path, struct ckpt_source **out, bool *inside,
			struct ckpt_error *err);

/* The bytes of ENTRY of ZIP, as a source of its own. ROOT: the file in which all of it is. */
int ckpt_container_take(struct ckpt_zip *zip, struct ckpt_zip_entry *entry,
			struct ckpt_source *root, struct ckpt_source **out, struct ckpt_error *err);

#endif
