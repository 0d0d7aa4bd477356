/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_EXPORT_H
#define CKPT_FORMAT_TORCH_EXPORT_H

#include "format/bundle.h"

/*
 * Add the tensors that a payload config describes to MAPPING, by their names, in the order of
 * the text. CONFIG is the record with the JSON text; the bytes are in FOLDER of the archive
 * ("data/weights/").
 */
int ckpt_export_read_config(struct ckpt_document *doc, struct ckpt_zip_entry *config,
			    const char *folder, struct ckpt_value *mapping, struct ckpt_error *err);

#endif
