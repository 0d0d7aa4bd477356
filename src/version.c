/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/mpi_plugin.h"
#include "broadcast/transport_ucx.h"
#include "gpu/cuda.h"
#include "gpu/nccl.h"

#include <ckpt/version.h>

#include <libdeflate.h>
#include <stdio.h>
#include <zip.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

const char *ckpt_version(void)
{
	return CKPT_VERSION;
}

void ckpt_version_details(void (*emit)(void *ctx, const char *name, const char *text), void *ctx)
{
	struct ckpt_cuda_facts cuda;
	struct ckpt_nccl_facts nccl;
	char text[4096];

#if defined(__clang__)
	emit(ctx, "compiler", "clang " __clang_version__);
#elif defined(__GNUC__)
	emit(ctx, "compiler", "gcc " __VERSION__);
#endif
	emit(ctx, "libzip", zip_libzip_version());
	emit(ctx, "libdeflate", LIBDEFLATE_VERSION_STRING);
	pcre2_config(PCRE2_CONFIG_VERSION, text);
	emit(ctx, "pcre2", text);
	ckpt_cuda_find_facts(&cuda);
	emit(ctx, "cuda", cuda.text);
	ckpt_nccl_find_facts(&nccl);
	emit(ctx, "nccl", nccl.text);
	ckpt_mpi_describe(text, sizeof(text));
	emit(ctx, "mpi", text);
	ckpt_ucx_describe(text, sizeof(text));
	emit(ctx, "ucx", text);
}
