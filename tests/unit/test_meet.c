/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "broadcast/how_to_meet.h"
#include "broadcast/meet.h"

#include <ckpt/broadcast.h>

#include <stdio.h>
#include <string.h>

/* What rank 0 makes of the hellos: every decision, and every sentence to the letter. */

enum { RANKS = 4 };

static struct ckpt_meet_hello hellos[RANKS];
static struct ckpt_meet_plan plan;
static struct ckpt_error err;

static int setup(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		struct ckpt_meet_hello *h = &hellos[i];

		*h = (struct ckpt_meet_hello){ .version = "0.1.0",
					       .protocol = 1,
					       .wishes = 99,
					       .pid = 800 + i,
					       .rank = i,
					       .gpu = -1 };
		snprintf(h->host, sizeof(h->host), "node%c", (char)('A' + i));
		h->cuda =
			(struct ckpt_cuda_facts){ true, 12040, 8, "driver for CUDA 12.4, 8 GPUs" };
		h->nccl = (struct ckpt_nccl_facts){ true, 22809, 12, "/usr/lib/libnccl.so.2",
						    "2.28.9 for CUDA 12" };
	}
	return 0;
}

static int decide(const char *wish)
{
	err = (struct ckpt_error)CKPT_ERROR_INIT;
	return ckpt_meet_decide(hellos, RANKS, wish, &plan, &err);
}

static void decides(const char *wish, const char *transport)
{
	int rc = decide(wish);

	if (rc < 0)
		print_message("%s\n", unit_text(&err));
	assert_int_equal(rc, 0);
	assert_int_equal(plan.status, 0);
	assert_string_equal(plan.transport, transport);
}

static void says(const char *wish, int status, uint32_t rank, const char *text)
{
	assert_int_equal(decide(wish), status);
	assert_int_equal(plan.status, status);
	assert_int_equal(plan.failed_rank, rank);
	assert_string_equal(unit_text(&err), text);
	assert_string_equal(plan.text, text);
}

static void have_mpi(void)
{
	for (uint32_t i = 0; i < RANKS; i++)
		hellos[i].has_mpi = true;
}

static void lose_driver(uint32_t rank)
{
	struct ckpt_cuda_facts *cuda = &hellos[rank].cuda;

	*cuda = (struct ckpt_cuda_facts){ 0 };
	snprintf(
		cuda->text, sizeof(cuda->text),
		"no NVIDIA driver on node%c (libcuda.so.1 not found): run on a GPU node, or use --transport tcp or mpi, which need no GPU",
		(char)('A' + rank));
}

/* Rank 2 and rank 1 are on one machine. */
static void put_on_one_gpu(const char *uuid, const char *other)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		snprintf(hellos[i].machine, sizeof(hellos[i].machine), "boot-%u", i == 2 ? 1 : i);
		strcpy(hellos[i].identity.bus, "0000:3b:00.0");
		snprintf(hellos[i].identity.uuid, sizeof(hellos[i].identity.uuid), "%s",
			 i == 2 ? other : uuid);
	}
}

static void a_gpu_is_for_one_rank(void **state)
{
	(void)state;
	put_on_one_gpu("GPU-1", "GPU-1");
	says("nccl", CKPT_E_UNSUPPORTED, 2,
	     "rank 1 (nodeB) and rank 2 (nodeC) both use GPU-1 at 0000:3b:00.0: give each rank its "
	     "own with --gpu, LOCAL_RANK or the launcher");
	put_on_one_gpu("GPU-1", "GPU-2");
	says("nccl", CKPT_E_UNSUPPORTED, 2,
	     "rank 1 (nodeB) and rank 2 (nodeC) use two MIG slices (GPU-1, GPU-2) of the GPU at "
	     "0000:3b:00.0, which NCCL takes only once: give each rank a GPU of its own, or use one "
	     "rank");
	strcpy(hellos[2].identity.bus, "0000:5e:00.0");
	decides("nccl", "nccl");
	put_on_one_gpu("GPU-1", "GPU-1");
	strcpy(hellos[2].nccl_host, "b"); /* the user says that it is another host */
	decides("nccl", "nccl");
	hellos[2].nccl_host[0] = '\0';
	hellos[1].shares = hellos[2].shares = true; /* too old for it */
	assert_int_equal(decide("nccl"), CKPT_E_UNSUPPORTED);
	for (uint32_t i = 0; i < RANKS; i++)
		hellos[i].nccl.version = 23007;
	decides("nccl", "nccl");
	put_on_one_gpu("", "");
	for (uint32_t i = 0; i < RANKS; i++) {
		hellos[i].shares = false;
		hellos[i].identity.bus[0] = '\0'; /* not known */
	}
	decides("nccl", "nccl");
}

static void gpus_that_hide_from_each_other_are_told(void **state)
{
	(void)state;
	put_on_one_gpu("GPU-1", "GPU-2");
	for (uint32_t i = 0; i < RANKS; i++)
		strcpy(hellos[i].machine, "boot");
	for (uint32_t i = 0; i < RANKS; i++)
		snprintf(hellos[i].identity.bus, sizeof(hellos[i].identity.bus), "0000:%02x:00.0",
			 i);
	decides("nccl", "nccl");
	assert_string_equal(plan.text, "");
	for (uint32_t i = 0; i < RANKS; i++)
		hellos[i].cuda.gpu_count = 1;
	decides("nccl", "nccl");
	assert_string_equal(
		plan.text, "rank 0 (nodeA) and rank 1 (nodeB) are each shown one GPU only, so NCCL "
			   "cannot use NVLink between them: show all GPUs of a node to its ranks");
}

static void nccl_is_taken_where_all_have_it(void **state)
{
	(void)state;
	decides(NULL, "nccl");
	decides("nccl", "nccl");
	have_mpi();
	decides(NULL, "nccl");
	decides("mpi", "mpi");
	decides("self", "self");
	hellos[2].nccl.cuda_major = 0; /* not known */
	hellos[3].nccl.cuda_major = 11;
	hellos[1].gpu = 7;
	hellos[3].local_rank = 7;
	decides(NULL, "nccl");
	hellos[2].cuda.gpu_count = 1; /* the launcher shows it one */
	hellos[2].local_rank = 5;
	decides(NULL, "nccl");
}

static void mpi_carries_where_nccl_cannot(void **state)
{
	(void)state;
	have_mpi();
	lose_driver(2);
	decides(NULL, "mpi");
	setup(NULL);
	have_mpi();
	hellos[3].nccl.version = 22703;
	decides(NULL, "mpi");
	hellos[1].has_mpi = false;
	decides(NULL, "tcp");
	says("mpi", CKPT_E_UNSUPPORTED, 1,
	     "MPI cannot carry to rank 1 (nodeB): it was not started by mpirun or srun --mpi=pmix (if it was, "
	     "ckpt-mpi.so is missing beside ckpt)");
}

static void ucx_carries_where_all_have_it(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		hellos[i].has_ucx = true;
		lose_driver(i);
	}
	decides(NULL, "tcp"); /* it has to be asked for */
	decides("ucx", "ucx");
	have_mpi();
	decides(NULL, "mpi");
	strcpy(hellos[1].no_tcp, "this host has no interface 'ib7' with an address");
	says("ucx", CKPT_E_UNSUPPORTED, 1,
	     "rank 1 (nodeB): this host has no interface 'ib7' with an address");
	hellos[1].no_tcp[0] = '\0';
	hellos[3].has_ucx = false;
	hellos[2].has_mpi = false;
	decides(NULL, "tcp");
	says("ucx", CKPT_E_UNSUPPORTED, 3,
	     "UCX cannot carry to rank 3 (nodeD): ckpt-ucx.so is missing beside ckpt there");
}

static void tcp_carries_where_nothing_else_can(void **state)
{
	(void)state;
	decides("tcp", "tcp");
	for (uint32_t i = 0; i < RANKS; i++)
		lose_driver(i);
	decides(NULL, "tcp");
	assert_string_equal(plan.text, ""); /* nobody counts on a GPU here */
	setup(NULL);
	hellos[3].nccl.version = 22703;
	decides(NULL, "tcp");
	assert_string_equal(
		plan.text,
		"the bytes go over TCP, not from GPU to GPU: rank 3 (nodeD) has NCCL 2.27.3 "
		"(/usr/lib/libnccl.so.2), rank 0 (nodeA) has 2.28.9 (/usr/lib/libnccl.so.2): give all "
		"nodes the same library with CKPT_NCCL_LIB");
}

static void what_a_rank_lacks_is_said(void **state)
{
	(void)state;
	lose_driver(2);
	lose_driver(3);
	says("nccl", CKPT_E_UNSUPPORTED, 2,
	     "rank 2 (nodeC): no NVIDIA driver on nodeC (libcuda.so.1 not found): run on a GPU node, or "
	     "use --transport tcp or mpi, which need no GPU");
	strcpy(hellos[1].no_tcp, "this host has no interface 'ib7' with an address");
	says(NULL, CKPT_E_UNSUPPORTED, 2,
	     "rank 2 (nodeC): no NVIDIA driver on nodeC (libcuda.so.1 not found): run on a GPU node, or "
	     "use --transport tcp or mpi, which need no GPU; rank 1 (nodeB): this host has no interface 'ib7' with an address");
	says("tcp", CKPT_E_UNSUPPORTED, 1,
	     "rank 1 (nodeB): this host has no interface 'ib7' with an address");
	setup(NULL);
	hellos[1].cuda.gpu_count = 0;
	strcpy(hellos[1].cuda.text, "the NVIDIA driver of nodeB (for CUDA 12.4) finds no GPU");
	says("nccl", CKPT_E_UNSUPPORTED, 1,
	     "rank 1 (nodeB): the NVIDIA driver of nodeB (for CUDA 12.4) finds no GPU");
	setup(NULL);
	hellos[0].nccl.is_there = false;
	strcpy(hellos[0].nccl.text,
	       "no NCCL on nodeA (libnccl.so.2 not found): set CKPT_NCCL_LIB to it, or use "
	       "--transport tcp or mpi, which need neither");
	says("nccl", CKPT_E_UNSUPPORTED, 0,
	     "rank 0 (nodeA): no NCCL on nodeA (libnccl.so.2 not found): set CKPT_NCCL_LIB to it, or "
	     "use --transport tcp or mpi, which need neither");
	setup(NULL);
	hellos[3].local_rank = 8;
	says("nccl", CKPT_E_UNSUPPORTED, 3,
	     "rank 3 (nodeD) has local rank 8, but its node shows 8 GPUs: start one process for each "
	     "GPU, or for each node");
	setup(NULL);
	hellos[3].gpu = 8;
	says("nccl", CKPT_E_UNSUPPORTED, 3,
	     "rank 3 (nodeD) is to use GPU 8, but sees 8, from 0 on: give it another --gpu");
	setup(NULL);
	hellos[2].nccl.cuda_major = 13;
	says("nccl", CKPT_E_UNSUPPORTED, 2,
	     "rank 2 (nodeC): the NCCL at /usr/lib/libnccl.so.2 was built for CUDA 13, the driver "
	     "supports 12.4: set CKPT_NCCL_LIB to one for CUDA 12");
}

static void ranks_that_do_not_fit_are_named(void **state)
{
	(void)state;
	have_mpi(); /* it does not help */
	strcpy(hellos[1].version, "0.2.0");
	says(NULL, CKPT_E_PEER, 1,
	     "rank 1 (nodeB) is ckpt 0.2.0, rank 0 (nodeA) is ckpt 0.1.0: start the same on all nodes");
	setup(NULL);
	hellos[2].protocol = 7;
	says(NULL, CKPT_E_PEER, 2,
	     "rank 2 (nodeC) speaks protocol 7 of ckpt broadcast, rank 0 (nodeA) speaks 1: start the "
	     "same ckpt on all nodes");
	setup(NULL);
	hellos[3].wishes = 1;
	says("mpi", CKPT_E_PEER, 3,
	     "rank 3 (nodeD) was started with other options than rank 0 (nodeA): give all ranks the "
	     "same");
	hellos[3].each_wish[CKPT_WISH_DST] = 1;
	strcpy(hellos[0].destination, "/nvme/0/");
	strcpy(hellos[3].destination, "/nvme/3/");
	says("mpi", CKPT_E_PEER, 3,
	     "rank 3 (nodeD) was started with DST '/nvme/3/', rank 0 (nodeA) with '/nvme/0/': give all ranks the "
	     "same; %r in DST is the rank, %h the host");
	hellos[3].each_wish[CKPT_WISH_DST] = 0;
	hellos[3].each_wish[CKPT_WISH_SOURCES] = 1;
	strcpy(hellos[0].sources, "/nfs/step900.pt");
	strcpy(hellos[3].sources, "/nfs/step\n800.pt");
	says("mpi", CKPT_E_PEER, 3,
	     "rank 3 (nodeD) was started with SRC '/nfs/step\\n800.pt', rank 0 (nodeA) with '/nfs/step900.pt': give all "
	     "ranks the same; only rank 0 has to have it");
	hellos[3].each_wish[CKPT_WISH_SOURCES] = 0;
	hellos[3].flags = CKPT_BROADCAST_REREAD | CKPT_BROADCAST_KEEP_GOING;
	hellos[0].flags = CKPT_BROADCAST_NO_VERIFY;
	says("mpi", CKPT_E_PEER, 3,
	     "rank 3 (nodeD) was started with other options than rank 0 (nodeA) (--verify, --keep-going): give all "
	     "ranks the same");
	hellos[0].flags = hellos[3].flags = 0;
	hellos[3].each_wish[CKPT_WISH_CHUNK] = hellos[3].each_wish[CKPT_WISH_EXPECT] = 5;
	says("mpi", CKPT_E_PEER, 3,
	     "rank 3 (nodeD) was started with other options than rank 0 (nodeA) (--chunk or --bandwidth, --expect): give all "
	     "ranks the same");
	setup(NULL);
	hellos[3].nccl.version = 22703;
	strcpy(hellos[3].nccl.path, "/opt/nccl/lib/libnccl.so.2");
	says("nccl", CKPT_E_PEER, 3,
	     "rank 3 (nodeD) has NCCL 2.27.3 (/opt/nccl/lib/libnccl.so.2), rank 0 (nodeA) has 2.28.9 "
	     "(/usr/lib/libnccl.so.2): give all nodes the same library with CKPT_NCCL_LIB");
}

/* The longest of everything: nothing is written past its end. */
static void long_texts_are_cut(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		memset(hellos[i].host, 'h', sizeof(hellos[i].host) - 1);
		memset(hellos[i].nccl.path, 'p', sizeof(hellos[i].nccl.path) - 1);
		memset(hellos[i].cuda.text, 't', sizeof(hellos[i].cuda.text) - 1);
	}
	hellos[1].nccl.version = 22703;
	assert_int_equal(decide(NULL), 0);
	assert_true(strlen(plan.text) < sizeof(plan.text));
	memset(hellos[2].no_tcp, 'n', sizeof(hellos[2].no_tcp) - 1);
	assert_int_equal(decide(NULL), CKPT_E_PEER);
	assert_int_equal(strlen(plan.text), sizeof(plan.text) - 1);
	hellos[1].cuda.gpu_count = 0;
	assert_int_equal(decide(NULL), CKPT_E_UNSUPPORTED);
	assert_true(strlen(plan.text) < sizeof(plan.text));
}

static void bytes_bring_everything(void **state)
{
	uint8_t hello[CKPT_MEET_HELLO], bytes[CKPT_MEET_PLAN];
	struct ckpt_meet_hello h;
	struct ckpt_meet_plan p;

	(void)state;
	hellos[3].gpu = -1;
	hellos[3].identity = (struct ckpt_cuda_identity){ "GPU-3", "0000:5e:00.0" };
	strcpy(hellos[3].machine, "boot-3");
	strcpy(hellos[3].nccl_host, "host3");
	hellos[3].shares = true;
	hellos[3].has_mpi = hellos[3].has_ucx = true;
	strcpy(hellos[3].no_tcp, "no address");
	hellos[3].wishes = UINT64_MAX - 5;
	hellos[3].each_wish[CKPT_WISH_EXPECT] = UINT32_MAX - 7;
	memset(hellos[3].nccl.path, 'p', sizeof(hellos[3].nccl.path) - 1);
	ckpt_meet_write_hello(&hellos[3], hello);
	ckpt_meet_read_hello(hello, &h);
	assert_string_equal(h.version, "0.1.0");
	assert_string_equal(h.host, "nodeD");
	assert_true(h.wishes == UINT64_MAX - 5 && h.rank == 3 && h.pid == 803 && h.gpu == -1);
	assert_true(h.has_mpi && h.has_ucx && h.cuda.has_driver && h.nccl.is_there);
	assert_true(h.cuda.driver_version == 12040 && h.cuda.gpu_count == 8);
	assert_true(h.nccl.version == 22809 && h.nccl.cuda_major == 12);
	assert_string_equal(h.cuda.text, hellos[3].cuda.text);
	assert_string_equal(h.nccl.path, hellos[3].nccl.path);
	assert_string_equal(h.nccl.text, hellos[3].nccl.text);
	assert_string_equal(h.identity.bus, "0000:5e:00.0");
	assert_string_equal(h.identity.uuid, "GPU-3");
	assert_string_equal(h.machine, "boot-3");
	assert_string_equal(h.nccl_host, "host3");
	assert_string_equal(h.no_tcp, "no address");
	assert_true(h.shares);
	assert_true(h.each_wish[CKPT_WISH_EXPECT] == UINT32_MAX - 7);
	memset(hello, 0xff, sizeof(hello)); /* texts end, whatever comes */
	ckpt_meet_read_hello(hello, &h);
	assert_int_equal(strlen(h.nccl.path), sizeof(h.nccl.path) - 1);

	plan = (struct ckpt_meet_plan){
		.status = CKPT_E_PEER, .text = "why", .failed_rank = 3, .transport = "nccl"
	};
	plan.tcp.count = 7;
	memset(plan.tcp.nonce, 0x55, sizeof(plan.tcp.nonce));
	memset(plan.tcp.spots, 0x66, sizeof(plan.tcp.spots));
	memset(plan.id.bytes, 0x81, sizeof(plan.id.bytes));
	ckpt_meet_write_plan(&plan, bytes);
	ckpt_meet_read_plan(bytes, &p);
	assert_true(p.status == CKPT_E_PEER && p.failed_rank == 3);
	assert_string_equal(p.text, "why");
	assert_string_equal(p.transport, "nccl");
	assert_memory_equal(&p.id, &plan.id, sizeof(p.id));
	assert_int_equal(p.tcp.count, 7);
	assert_memory_equal(p.tcp.nonce, plan.tcp.nonce, sizeof(p.tcp.nonce));
	assert_memory_equal(p.tcp.spots, plan.tcp.spots, sizeof(p.tcp.spots));
}

/* ---- how to meet ---- */

static const char *look_up(void *ctx, const char *name)
{
	const char *const *env = ctx;
	size_t len = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static void the_way_to_meet_is_what_the_launcher_offers(void **state)
{
	static const struct {
		const char *wish, *launcher, *env[4];
		bool has_mpi, has_pmix;
		enum ckpt_way way;
		const char *folder;
	} cases[] = {
		{ NULL, "openmpi", { "PMIX_NAMESPACE=a" }, true, true, CKPT_WAY_MPI, "" },
		{ NULL, "openmpi", { "PMIX_NAMESPACE=a" }, false, true, CKPT_WAY_PMIX, "" },
		{ "auto", "mpich", { NULL }, true, true, CKPT_WAY_MPI, "" },
		{ NULL,
		  "slurm",
		  { "PMIX_NAMESPACE=a", "SLURM_SUBMIT_DIR=/s" },
		  true,
		  true,
		  CKPT_WAY_MPI,
		  "" },
		{ NULL,
		  "slurm",
		  { "PMIX_NAMESPACE=a", "SLURM_SUBMIT_DIR=/s" },
		  false,
		  true,
		  CKPT_WAY_PMIX,
		  "" },
		{ NULL, "slurm", { "SLURM_SUBMIT_DIR=/s" }, true, true, CKPT_WAY_FILE, "/s/.ckpt" },
		{ NULL,
		  "slurm",
		  { "SLURM_SUBMIT_DIR=/s", "CKPT_RDZV_DIR=/r" },
		  true,
		  true,
		  CKPT_WAY_FILE,
		  "/r" },
		/* in srun --mpi=pmix, whose ranks are not torchrun's */
		{ NULL,
		  "torchrun",
		  { "PMIX_NAMESPACE=a", "CKPT_RDZV_DIR=/r" },
		  true,
		  true,
		  CKPT_WAY_FILE,
		  "/r" },
		{ NULL, "none", { "CKPT_RDZV_DIR=/r" }, true, true, CKPT_WAY_FILE, "/r" },
		{ "file:/d", "openmpi", { "PMIX_NAMESPACE=a" }, true, true, CKPT_WAY_FILE, "/d" },
		{ "pmix", "openmpi", { "PMIX_NAMESPACE=a" }, true, true, CKPT_WAY_PMIX, "" },
		{ "mpi", "k8s", { NULL }, false, false, CKPT_WAY_MPI, "" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ckpt_world w = { .size = 2, .launcher = cases[i].launcher };
		struct ckpt_ways ways = { .has_mpi = cases[i].has_mpi,
					  .has_pmix = cases[i].has_pmix };
		enum ckpt_way way;

		assert_int_equal(ckpt_how_to_meet(cases[i].wish, &w, look_up, (void *)cases[i].env,
						  &ways, &way, &err),
				 0);
		assert_int_equal(way, cases[i].way);
		assert_string_equal(ways.folder, cases[i].folder);
	}
}

static void an_id_of_nccl_is_read_whole(void **state)
{
	static const char *const none[] = { NULL };
	struct ckpt_world w = { .rank = 1, .size = 2, .launcher = "none" };
	struct ckpt_ways ways = { 0 };
	char wish[300] = "id:";
	enum ckpt_way way;

	(void)state;
	for (int i = 0; i < 128; i++)
		snprintf(wish + 3 + (size_t)i * 2, 3, i % 2 ? "%02x" : "%02X", 255 - i);
	assert_int_equal(ckpt_how_to_meet(wish, &w, look_up, (void *)none, &ways, &way, &err), 0);
	assert_int_equal(way, CKPT_WAY_ID);
	for (int i = 0; i < 128; i++)
		assert_int_equal((uint8_t)ways.id.bytes[i], 255 - i);
	strcat(wish, "0");
	assert_int_equal(ckpt_how_to_meet(wish, &w, look_up, (void *)none, &ways, &way, &err),
			 CKPT_E_ARG);
	assert_string_equal(unit_text(&err),
			    "the id of NCCL after id: has 257 hex digits, wanted 256");
	strcpy(wish + 200, "xyz");
	assert_int_equal(ckpt_how_to_meet(wish, &w, look_up, (void *)none, &ways, &way, &err),
			 CKPT_E_ARG);
	assert_string_equal(
		unit_text(&err),
		"the id of NCCL after id: has 197 hex digits and something else, wanted 256");
}

static void rank_0_listens_where_it_is_told(void **state)
{
	static const struct {
		const char *wish, *env[4], *text; /* TEXT: the address, or what is wrong */
		bool is_wrong;
	} cases[] = {
		{ "tcp://node0:29400", { NULL }, "node0:29400", false },
		{ "tcp://[fd00::1]:1", { NULL }, "[fd00::1]:1", false },
		{ "tcp://node0", { NULL }, "'node0' has no port, wanted HOST:PORT", true },
		{ "tcp://", { NULL }, "'' has no port, wanted HOST:PORT", true },
		{ "env", { "MASTER_ADDR=node0", "MASTER_PORT=29500" }, "node0:29501", false },
		{ "env",
		  { "MASTER_ADDR=node0", "MASTER_PORT=29500", "CKPT_RDZV_PORT=77" },
		  "node0:77",
		  false },
		{ "env", { "MASTER_ADDR=node0", "CKPT_RDZV_PORT=77" }, "node0:77", false },
		{ "env", { "MASTER_ADDR=fd00::1", "MASTER_PORT=65534" }, "[fd00::1]:65535", false },
		{ "env",
		  { "MASTER_PORT=29500" },
		  "--rdzv env goes by MASTER_ADDR, which is not set",
		  true },
		{ "env",
		  { "MASTER_ADDR=node0" },
		  "--rdzv env goes by CKPT_RDZV_PORT or MASTER_PORT, which is not set",
		  true },
		{ "env",
		  { "MASTER_ADDR=node0", "MASTER_PORT=65535" },
		  "MASTER_PORT is '65535', wanted a port that has one behind it",
		  true },
		{ "env",
		  { "MASTER_ADDR=node0", "MASTER_PORT=29500x" },
		  "MASTER_PORT is '29500x', wanted a port",
		  true },
		{ "env",
		  { "MASTER_ADDR=node0", "MASTER_PORT=0" },
		  "MASTER_PORT is '0', wanted a port",
		  true },
		{ "env",
		  { "MASTER_ADDR=node0", "CKPT_RDZV_PORT=0" },
		  "wanted a port from 1 to 65535",
		  true },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		for (uint32_t size = 1; size <= 2; size++) {
			struct ckpt_world w = { .size = size, .launcher = "torchrun" };
			struct ckpt_ways ways = { 0 };
			enum ckpt_way way;
			int rc;

			err = (struct ckpt_error)CKPT_ERROR_INIT;
			rc = ckpt_how_to_meet(cases[i].wish, &w, look_up, (void *)cases[i].env,
					      &ways, &way, &err);
			assert_int_equal(rc, cases[i].is_wrong ? CKPT_E_ARG : 0);
			if (cases[i].is_wrong) {
				assert_non_null(strstr(unit_text(&err), cases[i].text));
				continue;
			}
			assert_int_equal(way, size == 1 ? CKPT_WAY_ALONE : CKPT_WAY_TCP);
			assert_string_equal(ways.address.text, cases[i].text);
		}
}

static void a_prolog_meets_at_the_first_node(void **state)
{
	static const char *const env[] = { "SLURM_JOB_NODELIST=gpu[07-09]", "SLURM_JOB_ID=8123", NULL };
	static const char *const old[] = { "SLURM_NODELIST=gpu7", "SLURM_JOB_ID=5", "CKPT_RDZV_PORT=29400", NULL };
	static const char *const none[] = { "SLURM_JOB_ID=5", NULL };
	struct ckpt_world w = { .size = 3, .launcher = "slurm-prolog" };
	struct ckpt_ways ways = { 0 };
	enum ckpt_way way;

	(void)state;
	assert_int_equal(ckpt_how_to_meet("env", &w, look_up, (void *)env, &ways, &way, &err), 0);
	assert_int_equal(way, CKPT_WAY_TCP);
	assert_string_equal(ways.address.text, "gpu07:21123");
	assert_int_equal(ckpt_how_to_meet("env", &w, look_up, (void *)old, &ways, &way, &err), 0);
	assert_string_equal(ways.address.text, "gpu7:29400");
	assert_int_equal(ckpt_how_to_meet("env", &w, look_up, (void *)none, &ways, &way, &err), CKPT_E_ARG);
	assert_non_null(strstr(unit_text(&err), "--rdzv env goes by SLURM_JOB_NODELIST in a Prolog, which is not set"));
}

static void no_way_to_meet_is_told(void **state)
{
	static const char *const none[] = { NULL };
	static const char *const of_torch[] = { "MASTER_ADDR=node0", "MASTER_PORT=29500", NULL };
	struct ckpt_world w = { .rank = 1, .size = 2, .launcher = "k8s" };
	struct ckpt_ways ways = { 0 };
	enum ckpt_way way;

	(void)state;
	assert_int_equal(ckpt_how_to_meet(NULL, &w, look_up, (void *)none, &ways, &way, &err),
			 CKPT_E_UNSUPPORTED);
	assert_string_equal(
		unit_text(&err),
		"rank 1 of 2 (launcher k8s) has no way to meet the others: give all --rdzv file:DIR, a folder "
		"that all nodes see, or --rdzv tcp://HOST:PORT, where rank 0 listens; or start them with mpirun or srun --mpi=pmix");
	assert_int_equal(ckpt_how_to_meet(NULL, &w, look_up, (void *)of_torch, &ways, &way, &err),
			 CKPT_E_UNSUPPORTED);
	assert_non_null(strstr(
		unit_text(&err),
		"give all --rdzv env, as MASTER_ADDR and MASTER_PORT are set, and CKPT_TOKEN; or "
		"--rdzv file:DIR"));
	w.launcher = "mpich";
	assert_int_equal(ckpt_how_to_meet(NULL, &w, look_up, (void *)none, &ways, &way, &err),
			 CKPT_E_UNSUPPORTED);
	assert_non_null(strstr(
		unit_text(&err),
		"; or build ckpt where mpicc is, for ckpt-mpi.so, which talks to MPI and is not there"));
	for (const char *const *p = (const char *const[]){ "file:", "smoke", "", NULL }; *p; p++) {
		assert_int_equal(ckpt_how_to_meet(*p, &w, look_up, (void *)none, &ways, &way, &err),
				 CKPT_E_ARG);
		assert_non_null(
			strstr(unit_text(&err),
			       "wanted auto, pmix, mpi, file:DIR, tcp://HOST:PORT, env or id:HEX"));
	}
	w.size = 1;
	w.rank = 0;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ckpt_how_to_meet(i ? "file:/d" : NULL, &w, look_up, (void *)none,
						  &ways, &way, &err),
				 0);
		assert_int_equal(way, CKPT_WAY_ALONE);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

UNIT_SUITE(test_meet)
{
	const struct CMUnitTest tests[] = {
		TEST(nccl_is_taken_where_all_have_it),
		TEST(a_gpu_is_for_one_rank),
		TEST(gpus_that_hide_from_each_other_are_told),
		TEST(mpi_carries_where_nccl_cannot),
		TEST(ucx_carries_where_all_have_it),
		TEST(tcp_carries_where_nothing_else_can),
		TEST(what_a_rank_lacks_is_said),
		TEST(ranks_that_do_not_fit_are_named),
		TEST(long_texts_are_cut),
		TEST(bytes_bring_everything),
		TEST(the_way_to_meet_is_what_the_launcher_offers),
		TEST(an_id_of_nccl_is_read_whole),
		TEST(rank_0_listens_where_it_is_told),
		TEST(a_prolog_meets_at_the_first_node),
		TEST(no_way_to_meet_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
