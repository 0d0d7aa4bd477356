/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BASE_PATHS_H
#define CKPT_BASE_PATHS_H

#include <stdbool.h>

/* Is PATH the folder FOLDER, by whatever name, or somewhere below it, once all links are followed? False where one of them is not there. */
bool ckpt_is_below(const char *path, const char *folder);

#endif
