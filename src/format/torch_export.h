/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_FORMAT_TORCH_EXPORT_H
#define CKPT_FORMAT_TORCH_EXPORT_H

#include "format/bundle.h"

/*
 * The tensors that a payload config describes: CONFIG is the record with the JSON text, their bytes are in FOLDER of the
 * archive ("data/weights/"). Adds them to MAPPING, by their names, in the order of the text.
 */
int ckpt_export_read_config(struct ckpt_document *doc, struct ckpt_zip_entry *config,
			    const char *folder, struct ckpt_value *mapping, struct ckpt_error *err);

#endif
