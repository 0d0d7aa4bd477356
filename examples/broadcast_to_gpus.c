/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings a checkpoint into the memory of every GPU of a job, one process per GPU, and says where each tensor is:
 *
 *     cc broadcast_to_gpus.c $(pkg-config --cflags --libs ckpt) -o broadcast_to_gpus
 *     srun --ntasks-per-node=8 --cpus-per-task=8 --gpus-per-node=8 --gpu-bind=none --mpi=pmix ./broadcast_to_gpus model.pt
 *
 * The file is read once, by rank 0. Each tensor is copied back and a checksum of its bytes (64-bit FNV-1a) printed, so
 * that it can be compared with what torch.load() gives.
 */
#include <ckpt/ckpt.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const struct ckpt_error *err)
{
	char text[1400];

	fprintf(stderr, "broadcast_to_gpus: %s\n", ckpt_error_format(err, text, sizeof(text)));
	return EXIT_FAILURE;
}

static uint64_t fnv1a(const unsigned char *bytes, size_t len)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

/* Are the items one behind the other, as in C? */
static bool is_contiguous(const struct ckpt_tensor_info *t)
{
	uint64_t step = 1;

	for (uint32_t i = t->ndim; t->stride && i-- > 0;) {
		if (t->shape[i] > 1 && t->stride[i] != step)
			return false;
		step *= t->shape[i];
	}
	return t->stride != NULL;
}

static int show_tensor(const struct ckpt_gpu_copy *gpu, const struct ckpt_model *model, uint64_t i,
		       struct ckpt_error *err)
{
	struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;
	unsigned char *bytes;
	uint64_t address;
	int rc;

	ckpt_tensor_get(model, i, &t);
	rc = ckpt_gpu_tensor_address(gpu, model, i, &address, err);
	if (rc < 0)
		return rc;
	printf("%s\t%s\t(", t.name, t.dtype);
	for (uint32_t d = 0; d < t.ndim; d++)
		printf("%s%" PRIu64, d ? ", " : "", t.shape[d]);
	printf(")\t%#" PRIx64, address);
	if (is_contiguous(&t) && t.nbytes && (bytes = malloc(t.nbytes))) {
		rc = ckpt_gpu_read(gpu, address, bytes, t.nbytes, err);
		if (rc == 0)
			printf("\t%016" PRIx64, fnv1a(bytes, t.nbytes));
		free(bytes);
	}
	putchar('\n');
	return rc;
}

static int show(const struct ckpt_gpu_copy *gpu, struct ckpt_error *err)
{
	struct ckpt_model *model;
	int rc = ckpt_gpu_open(gpu, 0, &model, err);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; rc == 0 && i < ckpt_tensor_count(model); i++)
		rc = show_tensor(gpu, model, i, err);
	ckpt_close(model);
	return rc;
}

int main(int argc, char **argv)
{
	struct ckpt_broadcast_options options = CKPT_BROADCAST_OPTIONS_INIT;
	struct ckpt_broadcast_report report = CKPT_BROADCAST_REPORT_INIT;
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: broadcast_to_gpus FILE\n");
		return 2;
	}
	options.flags = CKPT_BROADCAST_TO_GPU;
	rc = ckpt_broadcast((const char *const *)&argv[1], 1, NULL, &options, &report, &err);
	if (rc == 0)
		printf("rank %u of %u: %" PRIu64 " bytes in %.2f s by %s\n", report.rank,
		       report.world_size, report.nbytes, report.seconds, report.transport);
	if (rc == 0)
		rc = show(report.gpu, &err);
	/* ... here the program would work with the tensors ... */
	ckpt_gpu_release(report.gpu);
	return rc < 0 ? fail(&err) : EXIT_SUCCESS;
}
