/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'ckpt broadcast': the command line of ckpt_broadcast(), for which options may also come from
 * CKPT_BROADCAST_* variables.
 *
 * What must stay true:
 * - print_result() prints everything, once, from options.ended: some launchers end all ranks as
 *   soon as one has ended with an error, and drop what the others print after that.
 * - Libraries write to standard output when they like. keep_output() runs before any of them is
 *   loaded: what this command prints goes to RESULTS, which nobody else has.
 * - set_variables() runs before there are threads; the library never changes the environment.
 * - After a lost rank, or when a call of the driver or NCCL hangs, the process leaves by _exit(): a
 *   library may wait in an exit handler, forever, or crash there.
 */
#include "broadcast_watch.h"
#include "command.h"
#include "evict.h"
#include "job_scripts.h"
#include "json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static bool no_sync, make_folders, keep_going, all_or_none, best_effort, print_slurm_prolog, print_k8s,
	evict;
static const char *verify, *expect, *target, *readers, *chunk, *depth, *threads, *launcher, *rank,
	*world_size, *local_rank, *job_key, *transport, *if_exists, *timeout, *export_name, *json,
	*gpu, *rendezvous, *init_timeout, *token_file, *interface, *progress, *metrics, *bandwidth,
	*direct;
static struct evict_wish evict_wish;
static FILE *results; /* standard output, as it was when the command began */

static const struct opt opts[] = {
	OPT_FLAG("mkdir", 0, &make_folders, "make missing folders on the path to DST"),
	OPT_STR("if-exists", 0, &if_exists, "WHAT",
		"reuse a copy staged from SRC (else replace), replace always, or error"),
	OPT_STR("transport", 0, &transport, "NAME",
		"use nccl, mpi, ucx, tcp, or self (one rank); default: the best of all"),
	OPT_STR("rdzv", 0, &rendezvous, "HOW",
		"meet by auto, mpi, pmix, file:DIR, tcp://HOST:PORT, env or id:HEX"),
	OPT_STR("token-file", 0, &token_file, "FILE",
		"prove the secret in FILE to meet by tcp://; default: $CKPT_TOKEN"),
	OPT_STR("interface", 0, &interface, "NAME",
		"let ucx and tcp use this interface; default: rank 0's network"),
	OPT_STR("job-key", 0, &job_key, "TEXT",
		"name this start of the job, the same on all ranks: %j"),
	OPT_STR("readers", 0, &readers, "N", "let N ranks read, each its own part; default: 1"),
	OPT_STR("bandwidth", 0, &bandwidth, "RATE",
		"read and send at most RATE bytes a second, 200M, for jobs that run"),
	OPT_STR("direct", 0, &direct, "WHEN",
		"read past the page cache: always, never, auto (to GPUs)"),
	OPT_STR("verify", 0, &verify, "HOW",
		"check crc (all that comes), none, or reread (also what the disk has)"),
	OPT_STR("expect", 0, &expect, "CRC32",
		"fail unless the one file has this checksum, in hex"),
	OPT_FLAG("no-sync", 0, &no_sync, "do not wait for the disk"),
	OPT_FLAG("keep-going", 0, &keep_going,
		 "skip nodes that cannot write DST, and exit with 9 if there are any"),
	OPT_FLAG("all-or-none", 0, &all_or_none,
		 "remove each new DST if one node cannot give its DST the name"),
	OPT_FLAG("best-effort", 0, &best_effort,
		 "exit with 0 whatever fails; --export then prints SRC"),
	OPT_STR("export", 0, &export_name, "NAME",
		"print only 'export NAME=PATH', for a Slurm TaskProlog"),
	OPT_STR("target", 0, &target, "WHAT",
		"write a file; or, without DST, measure: gpu (of every rank) or null"),
	OPT_STR("gpu", 0, &gpu, "N", "use GPU number N on this rank; default: by the local rank"),
	OPT_STR("launcher", 0, &launcher, "NAME",
		"read variables of torchrun, openmpi, mpich, slurm, k8s, env, or none"),
	OPT_STR("rank", 0, &rank, "N", "set the rank of this process; default: from the launcher"),
	OPT_STR("world-size", 0, &world_size, "N",
		"set how many ranks there are; default: from the launcher"),
	OPT_STR("local-rank", 0, &local_rank, "N",
		"set the rank on this node; rank 0 there writes"),
	OPT_STR("init-timeout", 0, &init_timeout, "SECONDS",
		"wait this long for all ranks to join; default: 120"),
	OPT_STR("timeout", 0, &timeout, "SECONDS",
		"give up after this long without a byte or an answer; default: 60"),
	OPT_STR("chunk", 0, &chunk, "SIZE",
		"carry SIZE at a time; default: 1M, to GPUs 8M, to one 4M"),
	OPT_STR("depth", 0, &depth, "N",
		"keep N chunks in memory per rank; default: 4 to 16 (16M; GPUs: 128M)"),
	OPT_STR("io-threads", 0, &threads, "N",
		"read and write with N threads per rank; default: 4 to 8, to a GPU 12"),
	OPT_FLAG("print-slurm-prolog", 0, &print_slurm_prolog,
		 "print a Prolog for Slurm that stages checkpoints for jobs"),
	OPT_FLAG("print-k8s", 0, &print_k8s,
		 "print a Kubernetes Job whose init containers do it"),
	OPT_FLAG("evict", 0, &evict, "remove what was staged in the operands, which are folders"),
	OPT_STR("older-than", 0, &evict_wish.older_than, "AGE",
		"with --evict, only what was last used so long ago: 90m, 12h, 7d"),
	OPT_STR("keep-free", 0, &evict_wish.keep_free, "SIZE",
		"with --evict, oldest first, and only until SIZE is free"),
	OPT_FLAG("dry-run", 'n', &evict_wish.dry_run, "with --evict, print what would be removed"),
	OPT_OPTIONAL("json", &json, "FILE", "print one JSON document from rank 0"),
	OPT_OPTIONAL("progress", &progress, "HOW",
		     "report progress in lines, or =json every second on standard error"),
	OPT_STR("metrics", 0, &metrics, "FILE",
		"write FILE for Prometheus from rank 0, at the end, however it ends"),
	OPT_FLAG("quiet", 'q', &quiet, "print errors only"),
	OPT_FLAG("verbose", 'v', &verbose, "say which rank this is, and how that was found"),
	OPT_END
};

static int run_broadcast(int argc, char **argv);

const struct command cmd_broadcast = {
	.name = "broadcast",
	.operands = "SRC... DST",
	.summary = "read a file once and copy it to every node of a job, all or nothing",
	.details =
		"Start it once on every node (or once per rank): with srun, mpirun, torchrun or\n"
		"by hand, everywhere with the same SRC and DST. Rank 0 reads SRC (a file, several,\n"
		"or a directory) once; the other ranks need not have it. Every node gets a copy\n"
		"with the same bytes, checked by CRC-32, at DST. No DST gets its name before all\n"
		"nodes have all bytes. A copy from the same source that is there already stays,\n"
		"and nothing is read: it is known by a small hidden file, its note,\n"
		".NAME.ckpt-staged beside a file and .ckpt-staged in a directory. Delete it with\n"
		"the copy. Without it, a file is copied anew, and a directory is refused.\n"
		"In DST, %h is the host, %n its number, %r the rank, %l the local rank, %j the\n"
		"job, %u the user and %b the name of SRC. If a node has several ranks, the one\n"
		"that the launcher or --local-rank calls 0 there writes, unless %r or %l gives\n"
		"each a path.\n"
		"Ranks meet through MPI or PMIx if the launcher offers it. Otherwise they meet in\n"
		"a folder that all nodes see (--rdzv file:DIR, $CKPT_RDZV_DIR or\n"
		"$SLURM_SUBMIT_DIR/.ckpt; without a launcher, --job-key names the start), or at a\n"
		"port of rank 0's host: --rdzv tcp://HOST:PORT, or --rdzv env for $MASTER_ADDR and\n"
		"$CKPT_RDZV_PORT (else $MASTER_PORT + 1). There they prove to each other that they\n"
		"know the job's token, $CKPT_TOKEN or --token-file, which is never sent. The bytes\n"
		"go by NCCL if every rank has a GPU, by MPI under mpirun, else over TCP; by UCX only\n"
		"with --transport ucx, whose ports trust who reaches them. Nothing of the payload\n"
		"is encrypted. DST's folder has to be there, or --mkdir makes it.\n"
		"On a single node, or to try it, one process needs none of this: --transport self.\n"
		"If --all-or-none removes a DST that replaced an older file, the older file is\n"
		"gone. With --best-effort, wrong usage, signals and an MPI that hangs keep their\n"
		"exit status.\n"
		"--print-slurm-prolog and --print-k8s print complete scripts, without SRC and DST:\n"
		"their comments say how to install them, what happens on a failure and what the\n"
		"job loads.\n"
		"--evict DIR... removes copies that stand in DIR and are what their notes say, with\n"
		"the notes, and what killed broadcasts left there. What a process has open stays,\n"
		"as far as /proc shows it: to root, of all users. It exits with 0, with 1 if less\n"
		"is free than --keep-free wants, or with 2.\n"
		"Variables set options, too: CKPT_BROADCAST_READERS=4, CKPT_BROADCAST_NO_SYNC=1.\n"
		"Exit status, the same on all ranks: 0 done or there already, 3 SRC, 4 DST,\n"
		"5 damaged on the way, 6 ranks that do not fit together, 7 a rank lost, 8 no way\n"
		"to reach the others, 9 not on all nodes (--keep-going), 128+n signal n.\n",
	.examples =
		"  srun --ntasks-per-node=1 --mpi=pmix ckpt broadcast /nfs/step900.pt /dev/shm/\n"
		"  mpirun -N 1 ckpt broadcast /nfs/model.safetensors /nvme/\n"
		"  ckpt broadcast --rank 1 --world-size 2 --rdzv tcp://node0:29400 m.pt /nvme/\n"
		"  ckpt broadcast --transport self model.pt /dev/shm/\n"
		"  ckpt broadcast --print-slurm-prolog > ckpt-stage.sh\n"
		"  ckpt broadcast --evict --older-than 3d --keep-free 200G /dev/shm/ckpt\n",
	.opts = opts,
	.least = 0, /* run_broadcast() wants some of whoever broadcasts */
	.most = -1,
	.run = run_broadcast,
};

/* ---- options ---- */

static bool parse_number(const char *text, int64_t *out)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	*out = (int64_t)n;
	return end != text && !*end && *text >= '0' && *text <= '9' && n <= 1 << 24;
}

/* Without COMPLAINS what is wrong is passed over. */
static int parse_numbers(struct ckpt_broadcast_options *o, bool complains)
{
	const struct {
		const char *name, *text;
		int64_t *signed_out;
		uint32_t *out;
	} numbers[] = {
		{ "readers", readers, NULL, &o->readers },
		{ "depth", depth, NULL, &o->depth },
		{ "io-threads", threads, NULL, &o->threads },
		{ "gpu", gpu, &o->gpu, NULL },
		{ "rank", rank, &o->rank, NULL },
		{ "world-size", world_size, &o->world_size, NULL },
		{ "local-rank", local_rank, &o->local_rank, NULL },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		int64_t n;

		if (!numbers[i].text)
			continue;
		if (!parse_number(numbers[i].text, &n) || (numbers[i].out && !n)) {
			if (!complains)
				continue;
			return wrong_usage(&cmd_broadcast, "%s: wanted a number",
					   option_text(&cmd_broadcast, numbers[i].name,
						       numbers[i].text));
		}
		if (numbers[i].out)
			*numbers[i].out = (uint32_t)n;
		else
			*numbers[i].signed_out = n;
	}
	return EXIT_FINE;
}

static bool parse_crc(const char *text, struct ckpt_broadcast_options *o)
{
	size_t len = strspn(text, "0123456789abcdefABCDEF");

	o->expected_crc32 = (uint32_t)strtoul(text, NULL, 16);
	o->has_expected = true;
	return len && len <= 8 && !text[len];
}

static int parse_seconds(const char *name, const char *text, double *out)
{
	char *end;

	*out = text ? number_of(text, &end) : 0;
	if (text && (*end || end == text || !(*out > 0) || *out > 1e6))
		return wrong_usage(&cmd_broadcast, "%s: wanted seconds",
				   option_text(&cmd_broadcast, name, text));
	return EXIT_FINE;
}

static int parse_words(struct ckpt_broadcast_options *o)
{
	if (target && !strcmp(target, "null"))
		o->flags |= CKPT_BROADCAST_NO_TARGET;
	else if (target && !strcmp(target, "gpu"))
		o->flags |= CKPT_BROADCAST_TO_GPU;
	else if (target && strcmp(target, "file") != 0)
		return wrong_usage(&cmd_broadcast, "%s: wanted file, gpu or null",
				   option_text(&cmd_broadcast, "target", target));
	if (if_exists && !strcmp(if_exists, "replace"))
		o->flags |= CKPT_BROADCAST_REPLACE;
	else if (if_exists && !strcmp(if_exists, "error"))
		o->flags |= CKPT_BROADCAST_NEW;
	else if (if_exists && strcmp(if_exists, "reuse") != 0)
		return wrong_usage(&cmd_broadcast, "%s: wanted reuse, replace or error",
				   option_text(&cmd_broadcast, "if-exists", if_exists));
	if (verify && !strcmp(verify, "none"))
		o->flags |= CKPT_BROADCAST_NO_VERIFY;
	else if (verify && !strcmp(verify, "reread"))
		o->flags |= CKPT_BROADCAST_REREAD;
	else if (verify && strcmp(verify, "crc") != 0)
		return wrong_usage(&cmd_broadcast, "%s: wanted crc, none or reread",
				   option_text(&cmd_broadcast, "verify", verify));
	if (expect && !parse_crc(expect, o))
		return wrong_usage(&cmd_broadcast, "%s: wanted up to 8 hexadecimal digits",
				   option_text(&cmd_broadcast, "expect", expect));
	if (expect && o->flags & CKPT_BROADCAST_NO_VERIFY)
		return wrong_usage(
			&cmd_broadcast,
			"broadcast: --expect needs a checksum, --verify none makes none");
	if (keep_going && all_or_none)
		return wrong_usage(&cmd_broadcast,
				   "broadcast: --keep-going and --all-or-none: wanted one of them");
	if (no_sync && o->flags & CKPT_BROADCAST_REREAD)
		return wrong_usage(&cmd_broadcast,
				   "broadcast: --verify reread reads what is on the disk, which "
				   "--no-sync does not wait for");
	if (bandwidth && (!parse_size(bandwidth, &o->bandwidth) || !o->bandwidth))
		return wrong_usage(&cmd_broadcast, "%s: wanted bytes a second, such as 200M",
				   option_text(&cmd_broadcast, "bandwidth", bandwidth));
	if (direct && strcmp(direct, "auto") && strcmp(direct, "always") && strcmp(direct, "never"))
		return wrong_usage(&cmd_broadcast, "%s: wanted auto, always or never",
				   option_text(&cmd_broadcast, "direct", direct));
	if (direct && strcmp(direct, "auto") != 0)
		o->flags |= *direct == 'a' ? CKPT_BROADCAST_DIRECT : CKPT_BROADCAST_CACHED;
	if (progress && !strcmp(progress, "json"))
		watch_as_json();
	else if (progress && *progress && strcmp(progress, "1") != 0 && strcmp(progress, "0") != 0 &&
		 strcmp(progress, "lines") != 0)
		return wrong_usage(&cmd_broadcast, "%s: wanted lines or json",
				   option_text(&cmd_broadcast, "progress", progress));
	else
		progress_in_lines = progress && strcmp(progress, "0") != 0;
	if (chunk && !parse_size(chunk, &o->chunk))
		return wrong_usage(&cmd_broadcast, "%s: wanted a size, such as 16M",
				   option_text(&cmd_broadcast, "chunk", chunk));
	return EXIT_FINE;
}

static int parse_all(struct ckpt_broadcast_options *o)
{
	int code = read_option_variables(&cmd_broadcast);

	if (code == EXIT_FINE && (evict || evict_wish.older_than || evict_wish.keep_free || evict_wish.dry_run))
		code = wrong_usage(&cmd_broadcast,
				   "broadcast: --older-than, --keep-free and --dry-run: wanted --evict on the command line");
	if (code == EXIT_FINE)
		code = parse_numbers(o, true);
	if (code == EXIT_FINE)
		code = parse_words(o);
	if (code == EXIT_FINE)
		code = parse_seconds("timeout", timeout, &o->timeout_s);
	if (code == EXIT_FINE)
		code = parse_seconds("init-timeout", init_timeout, &o->init_timeout_s);
	o->flags |= (no_sync ? CKPT_BROADCAST_NO_SYNC : 0u) |
		    (make_folders ? CKPT_BROADCAST_MKDIR : 0u) |
		    (keep_going ? CKPT_BROADCAST_KEEP_GOING : 0u) |
		    (all_or_none ? CKPT_BROADCAST_ALL_OR_NONE : 0u);
	o->launcher = launcher && !strcmp(launcher, "auto") ? NULL : launcher;
	o->transport = transport && !strcmp(transport, "auto") ? NULL : transport;
	o->rendezvous = rendezvous;
	o->job_key = job_key;
	o->token_file = token_file;
	o->interface = interface;
	return code;
}

/* ---- what is said ---- */

static void print_done(const struct ckpt_broadcast_report *r)
{
	char size[16], time[32], rate[16], files[32], shown[sizeof(r->path) + 64];
	double s = r->seconds > 0 ? r->seconds : 1e-9;

	if (r->rank != 0 || quiet)
		return;
	fprintf(stderr, "ckpt: ");
	if (r->files != 1)
		fprintf(stderr, "%s files, ", grouped(r->files, files));
	if (r->reused) {
		fprintf(stderr, "%s, there already on %s%u rank%s: %s\n",
			size_phrase(r->nbytes, size), r->world_size == 1 ? "" : "all ",
			r->world_size, plural(r->world_size), ckpt_escape(shown, sizeof(shown), r->path, strlen(r->path)));
		return;
	}
	fprintf(stderr, "%s %s to %u rank%s in %s, %s/s", size_phrase(r->nbytes, size),
		target && strcmp(target, "file") != 0 ? "carried" : "copied", r->world_size, plural(r->world_size),
		seconds_phrase(s, time),
		human_size((uint64_t)((double)r->nbytes / s), rate));
	if (r->has_crc)
		fprintf(stderr, ", crc32 %08x", r->crc32);
	fputc('\n', stderr);
}

/* Of --json PATH. */
static bool is_output(const char *path)
{
	return !*path || !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/fd/1");
}

static int write_json(const struct ckpt_broadcast_report *r)
{
	FILE *out;

	if (r->rank != 0)
		return EXIT_FINE;
	out = is_output(json) ? results : json_open(json);
	if (!out)
		return EXIT_ERROR;
	json_put(out,
		 json_pack("{s:i,s:s,s:i,s:I,s:s,s:s,s:b,s:I,s:o,s:f}", "ckpt_json", JSON_VERSION,
			   "command", "broadcast", "code", r->code, "world_size",
			   (json_int_t)r->world_size, "launcher", r->launcher, "transport",
			   r->transport, "reused", (int)r->reused, "files", (json_int_t)r->files,
			   "nbytes", json_u64(r->nbytes), "seconds", r->seconds));
	fputc('\n', out);
	return is_output(json) ? finish_stream(results, EXIT_FINE) : json_close(out, true);
}

/*
 * If all ranks know the same error, rank 0 prints it. Of ranks that did not meet, each node's first:
 * what one lacks, the others on its node lack, too, and other nodes may not.
 */
static void print_failure(const struct ckpt_broadcast_report *r, const struct ckpt_error *err)
{
	bool did_not_meet = !r->transport[0] || r->code == CKPT_BROADCAST_NO_TRANSPORT;
	char text[1400];

	if (r->rank == 0 || r->code == CKPT_BROADCAST_LOST || (did_not_meet && (r->local_rank == 0 || r->code != CKPT_BROADCAST_NO_TRANSPORT)))
		complain("broadcast: %s", ckpt_error_format(err, text, sizeof(text)));
}

struct result {
	const char *source; /* the only one, or NULL */
	struct ckpt_broadcast_report report;
	struct ckpt_error err;
	bool printed;
	int code; /* of printing it */
};

/* In a batch step of Slurm nothing starts a process on the other nodes: who forgets srun copies to one. */
static void note_no_srun(const struct ckpt_broadcast_report *r)
{
	const char *nodes = getenv("SLURM_JOB_NUM_NODES"), *tasks = getenv("SLURM_NTASKS");
	unsigned long node_count, task_count;

	nodes = nodes ? nodes : getenv("SLURM_NNODES");
	node_count = nodes ? strtoul(nodes, NULL, 10) : 1;
	task_count = tasks ? strtoul(tasks, NULL, 10) : 1;
	if (quiet || launcher || (transport && !strcmp(transport, "self")) || r->world_size != 1 ||
	    strcmp(r->launcher, "none") != 0 || (node_count < 2 && task_count < 2))
		return;
	if (node_count > 1)
		complain("note: the job of Slurm has %lu nodes, and this is one process, on one of them", node_count);
	else
		complain("note: the job of Slurm has %lu tasks, and this is one process", task_count);
	hint("srun ckpt broadcast ... starts one for each task; --launcher none says that one is right");
}

/* At the end, and the only time. */
static void print_result(void *ctx)
{
	struct result *result = ctx;
	const struct ckpt_broadcast_report *r = &result->report;

	end_progress();
	result->printed = true;
	if (verbose)
		fprintf(stderr, "ckpt: rank %u of %u on %s (launcher %s, transport %s%s%s)\n", r->rank,
			r->world_size, r->host, r->launcher,
			r->transport[0] ? r->transport : "none", r->network[0] ? " by " : "",
			r->network);
	if (r->links_left_out) /* whatever is not to be said: the copy is not all of the source */
		complain("note: left out, as links to folders are: '%s'%s", r->first_left_out, r->links_left_out > 1 ? " and others" : "");
	if (r->no_note[0] && !quiet) /* each node may have a reason of its own */
		complain("note: rank %u (%s): the next broadcast copies anew, and --evict does not find this copy: no note can be beside it: %s", r->rank, r->host, r->no_note);
	if (r->advice[0] && r->rank == 0 && !quiet)
		fprintf(stderr, "ckpt: %s\n", r->advice);
	if (result->err.status)
		print_failure(r, &result->err);
	else
		print_done(r);
	watch_end(r, &result->err);
	note_no_srun(r);
	if (export_name && (r->path[0] || (best_effort && result->source)))
		fprintf(results, "export %s=%s\n", export_name,
			r->path[0] ? r->path : result->source);
	result->code = json ? write_json(r) : EXIT_FINE;
	if (metrics) {
		int code = write_metrics(metrics, r);

		result->code = result->code ? result->code : code;
	}
	result->code = finish_stream(results, result->code);
}

/*
 * What NCCL, MPI and their plug-ins write to standard output goes to standard error, and RESULTS
 * to where standard output was. NCCL_DEBUG_FILE=/dev/stderr would not do: NCCL opens that file
 * anew and truncates it, so a log of the job would lose what is in it.
 */
static void keep_output(void)
{
	int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	results = copy < 0 ? NULL : fdopen(copy, "w");
	if (!results)
		results = stdout; /* it is closed: printing says so */
	else
		dup2(STDERR_FILENO, STDOUT_FILENO);
}

/*
 * Set up NCCL, the driver and UCX for a program that only broadcasts.
 * Kernels are loaded when they are used: all of NCCL's take minutes with a driver before CUDA
 * 12.2. What the user has set stays, except for what no broadcast works with: NCCL_COMM_BLOCKING
 * lets NCCL wait for lost ranks without an end, and many sites export an NCCL_ALGO for all-reduces,
 * whose algorithms a broadcast does not have. Call this before there are threads: they may read the
 * environment.
 */
static void set_variables(void)
{
	setenv("CUDA_MODULE_LOADING", "LAZY", 0);
	setenv("UCX_TCP_CONN_NB", "y", 0); /* else UCX waits inside connect() for as long as the system does, minutes */
	setenv("NCCL_RAS_ENABLE", "0", 0);
	setenv("NCCL_NVLS_ENABLE", "0", 0);
	setenv("NCCL_COMM_BLOCKING", "0", 1); /* also above what /etc/nccl.conf says */
	if (getenv("NCCL_ALGO") && verbose)
		fprintf(stderr, "ckpt: NCCL_ALGO=%s is for training: not used here\n",
			getenv("NCCL_ALGO"));
	unsetenv("NCCL_ALGO");
}

/* This rank was started wrongly, and the others wait for it: they are told, after the user was. */
static int tell_others(struct ckpt_broadcast_options *o)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	const char *const nothing[] = { "" };

	parse_numbers(o, false);
	o->rendezvous = rendezvous;
	o->job_key = job_key;
	o->token_file = token_file;
	o->launcher = launcher && !strcmp(launcher, "auto") ? NULL : launcher;
	o->flags = 0;
	o->cancel = catch_signals();
	o->failure = wrong_usage_text();
	fflush(stderr);
	ckpt_broadcast(nothing, 1, "", o, NULL, &err);
	return EXIT_USAGE;
}

/* What needs no job: true, and *CODE is the exit code. */
static bool print_scripts(int count, int *code)
{
	if (!print_slurm_prolog && !print_k8s)
		return false;
	if (print_slurm_prolog && print_k8s)
		*code = wrong_usage(&cmd_broadcast,
				    "broadcast: --print-slurm-prolog and --print-k8s: wanted one of them");
	else if (count)
		*code = wrong_usage(&cmd_broadcast, "broadcast: %s: wanted neither SRC nor DST",
				    print_k8s ? "--print-k8s" : "--print-slurm-prolog");
	else
		fputs(print_k8s ? job_script_k8s : job_script_slurm_prolog, stdout);
	if (*code == EXIT_FINE)
		*code = finish_output(EXIT_FINE);
	return true;
}

/* Rank 0 has a connection to each rank. What is allowed is more than what a process gets by itself. */
static void allow_many_connections(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* What a TaskProlog prints is read line by line, and each may be a command. */
static int check_export(char *const *operands, int count)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	if (!export_name)
		return EXIT_FINE;
	if (!*export_name || strchr("0123456789", *export_name) || export_name[strspn(export_name, letters)])
		return wrong_usage(&cmd_broadcast, "%s: wanted the name of a variable",
				   option_text(&cmd_broadcast, "export", export_name));
	if (json && is_output(json))
		return wrong_usage(&cmd_broadcast, "broadcast: --export and --json both print to standard output: give --json a FILE");
	for (int i = 0; i < count; i++)
		if (strpbrk(operands[i], "\n\r"))
			return wrong_usage(&cmd_broadcast, "broadcast: --export prints one line, and one of the names has several");
	return EXIT_FINE;
}

static int run_broadcast(int argc, char **argv)
{
	struct ckpt_broadcast_options options = CKPT_BROADCAST_OPTIONS_INIT;
	struct result result = { NULL, CKPT_BROADCAST_REPORT_INIT, CKPT_ERROR_INIT, false,
				 EXIT_FINE };
	struct ckpt_broadcast_report *report = &result.report;
	const char *destination = NULL;
	int first = parse_options(&cmd_broadcast, argc, argv), code = EXIT_FINE;

	if (first < 0)
		return -1 - first;
	if (print_scripts(argc - first, &code))
		return code;
	if (evict) {
		evict_wish.json = json;
		return run_evict(&evict_wish, argv + first, argc - first);
	}
	if (argc == first)
		return wrong_usage(&cmd_broadcast, "broadcast: too few operands, wanted %s", cmd_broadcast.operands);
	code = parse_all(&options);
	if (code == EXIT_FINE)
		code = check_export(argv + first, argc - first);
	if (code == EXIT_FINE && !(options.flags & (CKPT_BROADCAST_NO_TARGET | CKPT_BROADCAST_TO_GPU)))
		destination = argv[--argc];
	if (code == EXIT_FINE && argc == first)
		code = wrong_usage(&cmd_broadcast, "broadcast: wanted SRC and DST");
	if (code == EXIT_USAGE)
		return tell_others(&options);
	if (code != EXIT_FINE)
		return code;
	allow_many_connections();
	if (argc - first == 1)
		result.source = argv[first];
	options.flags |= CKPT_BROADCAST_MAY_EXIT;
	keep_output();
	set_variables();
	options.cancel = catch_signals();
	options.progress = watch_progress;
	options.ended = print_result;
	options.ended_ctx = &result;
	ckpt_broadcast((const char *const *)argv + first, (size_t)(argc - first), destination,
		       &options, report, &result.err);
	ckpt_gpu_release(report->gpu); /* it was to be measured */
	if (!result.printed)
		print_result(&result);
	if (result.err.status == CKPT_E_ARG && !report->transport[0])
		return EXIT_USAGE;
	code = finish_stream(results, report->code ? report->code : result.code);
	if (best_effort && code < CKPT_BROADCAST_CANCELLED)
		code = EXIT_FINE;
	/* a library may wait for the lost rank at exit, or meet a thread that never came back */
	if (report->code == CKPT_BROADCAST_LOST || ckpt_gpu_hanging_calls())
		_exit(code);
	return code;
}
