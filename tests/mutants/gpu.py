# SPDX-License-Identifier: Apache-2.0
"""What may be broken on the way to a GPU, and who has to notice: for run.py.

(file, what it says, what it says instead, the suites of unit_tests that are run until one fails)
"""

TRANSPORT = "src/broadcast/transport_gpu.c"
RING = "src/broadcast/ring.c"
SLOTS = "src/broadcast/slots.c"
COMM = "src/gpu/nccl_comm.c"
CUDA = "src/gpu/cuda.c"
BOUNDED = "src/gpu/bounded.c"
CRC = "src/gpu/crc.c"
KERNEL = "src/gpu/crc_kernel.h"

NCCL = ("test_transport_nccl",)
COPY = ("test_gpu_copy", "test_transport_nccl")
CONTEXT = ("test_cuda", "test_gpu_copy", "test_transport_nccl")
SUMS = ("test_crc",)
FILES = ("test_broadcast", "test_broadcast_failures", "test_transport_nccl")

MUTANTS = [
    # the order of what is put into streams
    (TRANSPORT, "	if (k->chunk.root == g->base.rank)\n		rc = ckpt_cuda_stream_wait(g->cuda, g->across, k->uploaded, err);",
     "", COPY),
    (TRANSPORT, "rc = ckpt_cuda_stream_wait(g->cuda, g->down, k->carried, err);", "rc = 0;", NCCL),
    (TRANSPORT, "is_downloaded(g, k) || k->chunk.sums ? k->downloaded : k->carried, err)", "k->carried, err)", NCCL),
    (TRANSPORT, "is_downloaded(g, k) || k->chunk.sums ? k->downloaded : k->carried, err)",
     "is_downloaded(g, k) || k->chunk.sums ? k->downloaded : k->chunk.root == g->base.rank ? k->uploaded : k->carried, err)", NCCL),
    (TRANSPORT, "		if (rc == 0)\n			rc = g->carrier.ready(g->carrier.self, err);", "		if (rc == 0)\n			rc = 1;", NCCL),
    (TRANSPORT, "rc = g->carrier.broadcast(g->carrier.self, g->across,", "rc = g->carrier.broadcast(g->carrier.self, g->down,", NCCL),
    (TRANSPORT, "rc = ckpt_cuda_copy_in(g->cuda, g->across,", "rc = ckpt_cuda_copy_in(g->cuda, g->up,", NCCL),
    (TRANSPORT, "rc = ckpt_cuda_event_record(g->cuda, k->carried, g->across, err);",
     "rc = ckpt_cuda_event_record(g->cuda, k->carried, g->up, err);", NCCL),
    (TRANSPORT, "ckpt_cuda_event_record(g->cuda, k->downloaded, g->down, err)", "ckpt_cuda_event_record(g->cuda, k->downloaded, g->across, err)",
     NCCL),
    (TRANSPORT, "	if (chunk->copy_count)\n		memcpy(k->copies", "	if (false)\n		memcpy(k->copies", NCCL),
    # sums
    (TRANSPORT, "(unsigned)(k - g->tickets) * CKPT_MOST_SUMS + (unsigned)copy", "(unsigned)copy", COPY),
    (TRANSPORT, "ckpt_cuda_crc_in(g->crc, g->down, k->copies[i].to,", "ckpt_cuda_crc_in(g->crc, g->across, k->address + k->copies[i].from,", COPY),
    (RING, "	if (is_summed(r, r->landed))\n		take_sums(r, r->landed);", "", COPY),
    (RING, "<= CKPT_MOST_SUMS;", "<= CKPT_MOST_SUMS + 1;", COPY),
    # votes
    (TRANSPORT, "int rc = wait_until(g, advance_queue, deadline, err);", "int rc = 0;", NCCL),
    (TRANSPORT, "ckpt_cuda_download_in(g->cuda, g->across, b->host.memory", "ckpt_cuda_download_in(g->cuda, g->down, b->host.memory", NCCL),
    (TRANSPORT, "return rc < 0 ? rc : wait_until(g, is_counted, deadline, err);", "return rc;", NCCL),
    (TRANSPORT, "		if (ckpt_now_nsec() > deadline)", "		if (false)", NCCL),
    (TRANSPORT, "for (size_t done = 0, some; rc == 0 && done < count; done += some)", "for (size_t done = 0, some; rc == 0 && !done; done += some)", NCCL),
    # the end
    (TRANSPORT, "	g->given_up = true;", "	(void)g;", NCCL),
    (TRANSPORT, "	g->carrier.close(g->carrier.self);\n	while", "	while", NCCL),
    (TRANSPORT, "	clear_buffer(g, &g->ballot);\n	ckpt_cuda_crc_free(g->crc);", "	ckpt_cuda_crc_free(g->crc);", COPY),
    # chunks and slots
    (RING, "wants_chunk(r, r->landed) ? CKPT_SLOT_ARRIVED : CKPT_SLOT_FREE", "CKPT_SLOT_FREE", FILES),
    (RING, "	if (!is_mine(r, chunk)) {", "	if (true) {", FILES),
    (RING, "	return (unsigned)(chunk % r->asked);", "	return (unsigned)(chunk % (r->asked - 1));", FILES),
    (RING, "	if (r->slots.carried - r->landed >= r->asked)", "	if (r->slots.carried - r->landed > r->asked)", FILES),
    (RING, "		record_failure(r, &r->reading, rc, &err);", "", FILES),
    (RING, "		pos += p.len;\n	}\n	if (rc < 0)\n		record_failure(r, &r->writing, rc, &err);", "		pos += p.len;\n	}", FILES),
    (RING, "stop = rc == 0 && r->o.vote(r->o.ctx) != 0;", "stop = rc == 0 && r->o.vote(r->o.ctx) != 0 && false;", FILES),
    (RING, "	if (ckpt_now_nsec() - (moved > r->last_nsec ? moved : r->last_nsec) < r->o.stall_nsec)", "	if (true)", FILES),
    (RING, "(struct ckpt_transport_copy){ (size_t)(pos - start),", "(struct ckpt_transport_copy){ 0,", COPY),
    (RING, "ckpt_slab_address(r->o.slab, p.file, p.off)", "ckpt_slab_address(r->o.slab, p.file, 0)", COPY),
    (RING, ".nbytes = (size_t)(chunk_end(r, chunk) - chunk * r->o.chunk),", ".nbytes = r->o.chunk,", ("test_broadcast",)),
    (RING, "	return r->o.landing || (r->o.slab && !r->copies) ||", "	return r->o.landing ||", COPY),
    (SLOTS, "	if (!s->own && chunk - oldest(s) >= s->count)", "	if (!s->own && chunk - oldest(s) > s->count + 1)", ("test_slots", "test_broadcast")),
    (SLOTS, "unsigned first = s->own && is_mine ? s->count - s->own : 0;", "unsigned first = 0;", ("test_slots",)),
    (SLOTS, "unsigned end = s->own && !is_mine ? s->count - s->own : s->count;", "unsigned end = s->count;", ("test_slots",)),
    (SLOTS, "(!found || slot->chunk < found->chunk)", "(!found || slot->chunk > found->chunk)", ("test_slots",)),
    # NCCL's states
    (COMM, "	    wait_until(comm, deadline, NULL, NULL) == 1) {", "	    deadline) {", NCCL),
    (COMM, "	    CALL(comm, NULL, ncclCommFinalize, comm->handle) == 0 &&\n", "", NCCL),
    (COMM, "	if (comm->handle && !comm->failed &&", "	if (comm->handle &&", NCCL),
    (COMM, "		(void)CALL(comm, NULL, ncclCommAbort, comm->handle);", "		(void)0;", NCCL),
    (COMM, "comm->cuda = ckpt_cuda_ref(cuda);", "comm->cuda = cuda;", NCCL),
    (COMM, " == 0 && ckpt_now_nsec() < deadline) {", " == 0 && deadline) {", NCCL),
    (COMM, "	comm->failed |= state != 0;", "", ("test_nccl",)),
    (COMM, "	comm->failed |= rc <= 0;", "", NCCL),
    ("src/gpu/nccl_library.h", ".version = 21400 \\", ".version = 21400, .blocking = 1 \\", NCCL),
    # contexts, devices, memory
    (CUDA, "	unsigned code = cuda->driver->cuCtxPushCurrent_v2(cuda->context);", "	unsigned code = 0;", CONTEXT),
    (CUDA, "cuda->driver->cuDeviceGet(&cuda->device, (int)cuda->ordinal)", "cuda->driver->cuDeviceGet(&cuda->device, 0)", CONTEXT),
    (CUDA, "cuDevicePrimaryCtxRetain(&cuda->context, cuda->device)", "cuDevicePrimaryCtxRetain(&cuda->context, 0)", CONTEXT),
    (CUDA, "	if (!cuda || atomic_fetch_sub(&cuda->users, 1) > 1)", "	if (!cuda)", CONTEXT),
    (CUDA, "	int rc = ckpt_cuda_upload_in(cuda, cuda->copies, to, from, nbytes, err);\n\n	return rc < 0 ? rc : CALL(cuda, err, cuStreamSynchronize, cuda->copies);",
     "	return ckpt_cuda_upload_in(cuda, cuda->copies, to, from, nbytes, err);", CONTEXT),
    (CUDA, "		(void)CALL(cuda, NULL, cuMemHostUnregister, host.memory);", "", COPY),
    (CUDA, "	*out = (struct ckpt_cuda_host){ NULL, false };\n	rc", "	*out = (struct ckpt_cuda_host){ NULL, true };\n	rc", COPY),
    (CUDA, "	ckpt_cuda_stream_free(cuda, cuda->copies);\n", "", CONTEXT),
    (CUDA, "code == CKPT_CU_NOT_READY ? 0 : code", "0", CONTEXT),
    # checksums
    (CRC, "crc->slots[slot].factor = crc->back[zeros];", "crc->slots[slot].factor = crc->back[zeros & 7];", SUMS),
    (CRC, "power(crc, 8 * nbytes)", "power(crc, 8 * (nbytes & 0xffff))", SUMS),
    (CRC, "	uint64_t partials = crc->partials + (uint64_t)slot * crc->blocks * sizeof(uint32_t);", "	uint64_t partials = crc->partials + (uint64_t)(slot & 1) * crc->blocks * sizeof(uint32_t);", SUMS),
    (CRC, "	return rc < 0 ? rc : fetch(crc, stream, slot, err);", "	return rc;", SUMS),
    (CRC, "i < crc->blocks; i++)\n		sum ^=", "i < crc->blocks - 1; i++)\n		sum ^=", SUMS),
    (CRC, "	code = crc->driver->cuStreamSynchronize(stream);", "	code = 0;", SUMS),
    (CRC, "	if (found == wanted)", "	if (true)", SUMS),
    (CRC, "		return fail_load(crc, \"cuLaunchKernel\", code, err);", "		return CKPT_E_GPU;", SUMS),
    (CRC, "	return code ? fail_load(crc, call, code, err) : 0;", "	return 0;", SUMS),
    (CRC, "				crc->driver->cuModuleUnload(crc->module), NULL);", "				0, NULL);", SUMS),
    (CRC, "	ckpt_cuda_close(crc->cuda);", "", SUMS),
    (KERNEL, "		if (off < job->nbytes)", "		if (off < job->nbytes + 1)", SUMS),
    (KERNEL, "			first = crc_load_bytes(job, 0);", "			first = from[0];", SUMS),
    (KERNEL, "else if (at > 0 && at < last)", "else if (at > 0 && at <= last)", SUMS),
    (KERNEL, "	if (last > 0 && at - stride == last)", "	if (at - stride == last)", SUMS),
    (KERNEL, "	if (last > 0 && at - stride == last)", "	if (last > 0)", SUMS),
    (KERNEL, "for (crc_u32 i = thread; i < CRC_PRODUCTS; i += count)", "for (crc_u32 i = thread; i < CRC_PRODUCTS; i += count + 1)", SUMS),
    (KERNEL, "turn <= turns; turn++)", "turn < turns; turn++)", SUMS),
    # what may not come back
    (BOUNDED, "	c->given_up = !done;", "	c->given_up = false;", NCCL),
    (BOUNDED, "	while (!c->done && rc == 0)", "	while (!c->done)", NCCL),
    (BOUNDED, "	if (!done)\n		atomic_fetch_add(&abandoned, 1);", "", NCCL),
    ("src/broadcast/open_transport.c", "	t->ops->abort(t);\n	ckpt_gpu_run_bounded", "	ckpt_gpu_run_bounded", ("test_nccl",)),
]
