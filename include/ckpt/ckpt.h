/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libckpt: PyTorch checkpoints without Python. Start with ckpt_open() in model.h.
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <ckpt/broadcast.h>
#include <ckpt/container.h>
#include <ckpt/dcp.h>
#include <ckpt/diff.h>
#include <ckpt/dis.h>
#include <ckpt/edit.h>
#include <ckpt/error.h>
#include <ckpt/gpu.h>
#include <ckpt/model.h>
#include <ckpt/read.h>
#include <ckpt/repair.h>
#include <ckpt/save.h>
#include <ckpt/scan.h>
#include <ckpt/stat.h>
#include <ckpt/text.h>
#include <ckpt/verify.h>
#include <ckpt/version.h>
#include <ckpt/why.h>

#endif
