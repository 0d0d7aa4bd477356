/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many inputs of one command. Each is taken by a process of its own, --jobs of them at once, so that
 * what ends one of them (a signal, a lack of memory) does not end the others. What they print goes
 * through pipes, and on in the order of the inputs: of the one whose turn it is line by line, while
 * those behind it wait with their pipes full. So nothing is kept, whatever they print.
 *
 * Relies on fork() in a process that has no threads: no command may start one before run_many().
 *
 * What must stay true: lines of two inputs never mix. All inputs are known before the first is
 * taken, so that no output becomes an input. An edit takes no file twice, whatever its names are,
 * and no file of a directory that it takes as a whole.
 */
#include "many_files.h"
#include "json.h"
#include "many_inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	MOST_JOBS = 64,
	MOST_AHEAD = 128,    /* processes that began before the one whose turn it is ended */
	MOST_LINE = 1 << 16, /* what is longer is passed on in pieces */
	WAKE_UP = 500,	     /* milliseconds: to show progress */
};

struct one_result *one_of_many;
const char *many_jobs;

/* Lines that are passed on. */
struct lines {
	char bytes[MOST_LINE];
	size_t len;
	bool in_line; /* its beginning was passed on */
};

struct many {
	const struct many_files *m;
	struct inputs inputs;
	struct one_result *results; /* shared with the processes */
	size_t next, head;	    /* the first that has not begun; the one whose turn it is */
	size_t running, told, all;
	uint32_t jobs;
	const volatile int *caught;
	bool stopped, forwarded;
	FILE *json;
	const char *json_target;
	bool any_entry, any_document; /* in "inputs"; of this entry */
	bool broken;		      /* a document that was not ended */
	size_t depth;		      /* of brackets in a document */
	bool in_string, escaped;
	char error[1024]; /* the first message about this input */
	struct lines out, err;
	uint64_t words[MOST_WORDS + 1], codes[3], tensors, elements, nbytes, dead, freed;
	int code;
};

/* ---- passing on what they print ---- */

static bool begins_with_name(const struct input *in, const char *line, size_t len)
{
	size_t name = strlen(in->shown);

	return len > name && !memcmp(line, in->shown, name) &&
	       (line[name] == ':' || line[name] == '/');
}

/*
 * The length of what LINE begins with and is the name of IN, cut: errors have room for 320 bytes of
 * it. 0: it is not.
 */
static size_t cut_name(const struct input *in, const char *line, size_t len)
{
	static const size_t least = 200;
	size_t n = 0;

	while (n < len && in->shown[n] && line[n] == in->shown[n])
		n++;
	return n >= least && len - n > 3 && !memcmp(line + n, "...", 3) ? n + 3 : 0;
}

static void note_error(struct many *r, const char *line, size_t len)
{
	while (len && line[len - 1] == '\n')
		len--;
	if (!r->error[0] && !(len > 6 && !memcmp(line, "note: ", 6)))
		snprintf(r->error, sizeof(r->error), "%.*s", (int)len, line);
}

/* Print a line of the input whose turn it is, with its name. */
static void put_line(struct many *r, bool is_message, bool is_begin, const char *line, size_t len)
{
	static const char mark[] = "ckpt: ";
	const struct input *in = &r->inputs.items[r->head];
	FILE *to = is_message ? stderr : stdout;
	size_t cut;

	end_progress();
	if (is_message)
		fflush(stdout);
	if (is_begin && is_message && len > strlen(mark) && !memcmp(line, mark, strlen(mark))) {
		fputs(mark, to);
		line += strlen(mark);
		len -= strlen(mark);
		note_error(r, line, len);
	} else if (is_message) {
		is_begin = false; /* a hint */
	}
	cut = is_begin ? cut_name(in, line, len) : 0;
	if (cut)
		fputs(in->shown, to);
	else if (is_begin && !begins_with_name(in, line, len))
		fprintf(to, "%s: ", in->shown);
	line += cut;
	len -= cut;
	fwrite(line, 1, len, to);
}

static void put_lines(struct many *r, bool is_message, bool is_end)
{
	struct lines *l = is_message ? &r->err : &r->out;
	size_t done = 0;

	while (done < l->len) {
		const char *end = memchr(l->bytes + done, '\n', l->len - done);
		size_t len = end ? (size_t)(end - l->bytes) + 1 - done : l->len - done;

		if (!end && !is_end && l->len - done < sizeof(l->bytes))
			break;
		put_line(r, is_message, !l->in_line, l->bytes + done, len);
		l->in_line = !end;
		done += len;
	}
	memmove(l->bytes, l->bytes + done, l->len - done);
	l->len -= done;
	if (is_end && l->in_line)
		fputc('\n', is_message ? stderr : stdout);
	if (is_end)
		l->in_line = false;
}

/* ---- one document ---- */

static void begin_entry(struct many *r)
{
	json_t *name;

	r->any_document = r->in_string = r->escaped = false;
	r->depth = 0;
	r->error[0] = '\0';
	if (!r->json)
		return;
	fputs(r->any_entry ? ",\n" : "\n", r->json);
	r->any_entry = true;
	if (r->m->bare_entries && !r->inputs.items[r->head].error)
		return; /* it prints all of it */
	name = json_object();
	json_set_name(name, "path", r->inputs.items[r->head].path);
	fputs("{\"input\":", r->json);
	json_put(r->json, name);
}

static void follow_brackets(struct many *r, char c)
{
	if (r->escaped)
		r->escaped = false;
	else if (r->in_string && c == '\\')
		r->escaped = true;
	else if (c == '"')
		r->in_string = !r->in_string;
	else if (!r->in_string && (c == '{' || c == '['))
		r->depth++;
	else if (!r->in_string && (c == '}' || c == ']') && r->depth)
		r->depth--;
}

static void put_document(struct many *r, const char *bytes, size_t len)
{
	if (!r->any_document && !r->m->bare_entries)
		fputs(",\"document\":", r->json);
	r->any_document = true;
	for (size_t i = 0; i < len; i++)
		follow_brackets(r, bytes[i]);
	fwrite(bytes, 1, len, r->json);
}

static void end_entry(struct many *r, int code)
{
	const struct input *in = &r->inputs.items[r->head];

	r->broken = r->broken || r->depth || r->in_string;
	if (!r->json || (r->m->bare_entries && r->any_document))
		return;
	if (r->m->bare_entries && !in->error) { /* it ended before it could print anything */
		json_t *name = json_object();

		json_set_name(name, "path", in->path);
		fputs("{\"input\":", r->json);
		json_put(r->json, name);
	}
	if (r->m->bare_entries)
		fputs(",\"findings\":[],\"verdict\":\"error\"", r->json);
	if (!r->any_document || (r->error[0] && code != EXIT_FINE)) {
		json_t *error = json_object();

		json_set_name(error, "error", r->error);
		fputc(',', r->json);
		json_put_members(r->json, error);
	}
	if (!r->m->bare_entries)
		fprintf(r->json, ",\"exit\":%d", code);
	fputs("}", r->json);
}

static int begin_json(struct many *r)
{
	char **paths;

	if (!r->m->json || !*r->m->json)
		return EXIT_FINE;
	r->json_target = *r->m->json;
	paths = calloc(r->inputs.count + 1, sizeof(*paths));
	if (!paths)
		no_memory();
	for (size_t i = 0; i < r->inputs.count; i++)
		paths[i + 1] = r->inputs.items[i].path;
	json_limit_mode((int)r->inputs.count + 1, paths); /* the first is left out, as of argv */
	free(paths);
	r->json = json_open(r->json_target);
	if (!r->json)
		return EXIT_ERROR;
	fprintf(r->json, "{\"ckpt_json\":%d,\"command\":\"%s\",\"inputs\":[", JSON_VERSION,
		r->m->cmd->name);
	return EXIT_FINE;
}

static int end_json(struct many *r, bool whole)
{
	if (!r->json)
		return EXIT_FINE;
	fprintf(r->json,
		"\n],\"count\":%zu,\"exit_codes\":{\"0\":%" PRIu64 ",\"1\":%" PRIu64
		",\"2\":%" PRIu64 "},\"skipped\":%zu}\n",
		r->all, r->codes[0], r->codes[1], r->codes[2], r->inputs.skipped);
	return json_close(r->json, whole);
}

/* ---- totals ---- */

static int worse_code(int a, int b)
{
	static const int order[] = { EXIT_FINE, EXIT_USAGE, EXIT_ERROR, EXIT_NO };
	int x = 0, y = 0;

	while (x < 3 && order[x] != a)
		x++;
	while (y < 3 && order[y] != b)
		y++;
	return order[x > y ? x : y];
}

static void count_result(struct many *r, const struct one_result *one, int code)
{
	const char *const *words = r->m->words;
	size_t w = code == EXIT_FINE ? 0 : code == EXIT_NO ? 1 : MOST_WORDS;

	for (size_t i = 0; one->word && i < MOST_WORDS; i++)
		if (words[i] && !strcmp(words[i], one->word))
			w = i;
	r->words[w]++;
	r->codes[code == EXIT_FINE ? 0 : code == EXIT_NO ? 1 : 2]++;
	r->tensors = sum(r->tensors, one->tensors);
	r->elements = sum(r->elements, one->elements);
	r->nbytes = sum(r->nbytes, one->nbytes);
	r->dead = sum(r->dead, one->dead);
	r->freed = sum(r->freed, one->freed);
	r->code = worse_code(r->code, code);
}

static void print_totals(const struct many *r)
{
	const char *between = ": ";
	char count[32], other[32], size[16];

	if (r->json || quiet)
		return;
	printf("%s input%s", grouped(r->all, count), plural(r->all));
	for (size_t i = 0; i <= MOST_WORDS; i++)
		if (r->words[i]) {
			printf("%s%s %s", between, grouped(r->words[i], count),
			       i < MOST_WORDS ? r->m->words[i] : "failed");
			between = ", ";
		}
	if (r->tensors)
		printf("; %s tensor%s, %s element%s, %s", grouped(r->tensors, count),
		       plural(r->tensors), grouped(r->elements, other), plural(r->elements),
		       size_phrase(r->nbytes, size));
	else if (r->nbytes && r->m->written)
		printf("; %s %s", size_phrase(r->nbytes, size), r->m->written);
	if (r->freed)
		printf("; %s given back to the disk", size_phrase(r->freed, size));
	if (r->dead >= WORTH_SAYING && r->m->dead)
		printf("; %s %s", size_phrase(r->dead, size), r->m->dead);
	if (r->inputs.skipped)
		printf("; %s other file%s skipped%s", grouped(r->inputs.skipped, count),
		       plural(r->inputs.skipped), verbose ? "" : " (-v)");
	printf("\n");
}

/* ---- processes ---- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_pipes(int (*pipes)[2])
{
	for (int i = 0; i < 3; i++) {
		close_fd(&pipes[i][0]);
		close_fd(&pipes[i][1]);
	}
}

static void __attribute__((noreturn))
be_one(struct many *r, struct input *in, int (*pipes)[2], pid_t parent)
{
	release_signals(); /* until the command catches them, too */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || dup2(pipes[0][1], STDOUT_FILENO) < 0 ||
	    dup2(pipes[1][1], STDERR_FILENO) < 0)
		_exit(EXIT_ERROR);
	for (size_t i = r->head; i < r->next; i++) {
		close_fd(&r->inputs.items[i].out);
		close_fd(&r->inputs.items[i].err);
		close_fd(&r->inputs.items[i].life);
	}
	close_fd(&pipes[0][0]);
	close_fd(&pipes[1][0]);
	close_fd(&pipes[2][0]); /* the other end closes when this process ends */
	__fpurge(stdout);	/* what could not be written is the other process's */
	clearerr(stdout);
	one_of_many = &r->results[in - r->inputs.items];
	if (r->json)
		*r->m->json = "";
	forget_terminal();
	exit(r->m->one(in->path, r->m->ctx));
}

/* False: it cannot be started now. */
static bool start(struct many *r, struct input *in)
{
	int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	pid_t parent = getpid();

	for (int i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) < 0) {
			close_pipes(pipes);
			return false;
		}
	fflush(stdout);
	if (r->json)
		fflush(r->json);
	in->pid = fork();
	if (in->pid < 0) {
		in->pid = 0;
		close_pipes(pipes);
		return false;
	}
	if (in->pid == 0)
		be_one(r, in, pipes, parent);
	for (int i = 0; i < 3; i++)
		close_fd(&pipes[i][1]);
	in->out = pipes[0][0];
	in->err = pipes[1][0];
	in->life = pipes[2][0];
	in->started = true;
	r->running++;
	return true;
}

static bool needs_process(const struct input *in)
{
	return !in->skipped && !in->same && !in->error;
}

static void start_some(struct many *r)
{
	while (!r->stopped && r->next < r->inputs.count && r->next < r->head + MOST_AHEAD) {
		struct input *in = &r->inputs.items[r->next];

		if (needs_process(in) && r->running >= r->jobs)
			return;
		if (needs_process(in) && !start(r, in)) {
			if (r->next > r->head)
				return; /* until those before it are told */
			if (asprintf(&in->error, "%s: cannot start a process: %s", in->shown,
				     errno_text(errno)) < 0)
				no_memory();
		}
		r->next++;
	}
}

static void reap(struct many *r, struct input *in)
{
	while (waitpid(in->pid, &in->status, 0) < 0)
		if (errno != EINTR) {
			in->status = EXIT_ERROR << 8; /* nobody knows */
			break;
		}
	close_fd(&in->life);
	in->pid = 0;
	r->running--;
	if (!r->told && in == &r->inputs.items[r->head] && WIFEXITED(in->status) &&
	    WEXITSTATUS(in->status) == EXIT_USAGE)
		r->stopped = true; /* it is wrong for all others, too */
}

/* Ctrl-C reaches all processes, other signals this one alone. */
static void forward_signal(struct many *r)
{
	if (!*r->caught || r->forwarded)
		return;
	r->stopped = r->forwarded = true;
	for (size_t i = r->head; i < r->next; i++)
		if (r->inputs.items[i].pid)
			kill(r->inputs.items[i].pid, *r->caught);
}

/* Read what is there; at the end, close it. */
static void read_some(struct many *r, int *fd, bool is_message)
{
	struct lines *l = is_message ? &r->err : &r->out;
	ssize_t n = read(*fd, l->bytes + l->len, sizeof(l->bytes) - l->len);

	if (n < 0 && errno == EINTR)
		return;
	if (n > 0 && r->json && !is_message) {
		put_document(r, l->bytes, (size_t)n);
		return;
	}
	if (n > 0)
		l->len += (size_t)n;
	else
		close_fd(fd);
	put_lines(r, is_message, n <= 0);
}

/* Pass on what the input whose turn it is prints, until it ends; start others as some end. */
static void pass_on(struct many *r)
{
	struct input *in = &r->inputs.items[r->head];

	while (in->out >= 0 || in->err >= 0) {
		struct pollfd fds[MOST_AHEAD + 2] = { { in->out, POLLIN, 0 },
						      { in->err, POLLIN, 0 } };
		size_t of[MOST_AHEAD + 2], count = 2;

		for (size_t i = r->head; i < r->next; i++)
			if (r->inputs.items[i].pid) {
				of[count] = i;
				fds[count++] =
					(struct pollfd){ r->inputs.items[i].life, POLLIN, 0 };
			}
		if (poll(fds, count, WAKE_UP) < 0 && errno != EINTR)
			break;
		forward_signal(r);
		show_count(r->told, r->all);
		for (size_t i = 2; i < count; i++)
			if (fds[i].revents)
				reap(r, &r->inputs.items[of[i]]);
		if (fds[1].revents)
			read_some(r, &in->err, true);
		else if (fds[0].revents)
			read_some(r, &in->out, false);
		start_some(r);
	}
	if (in->pid)
		reap(r, in);
	forward_signal(r);
}

/* ---- one after the other ---- */

static int end_of(struct many *r, struct input *in)
{
	if (WIFEXITED(in->status))
		return WEXITSTATUS(in->status);
	in->interrupted = *r->caught != 0;
	if (!in->interrupted) {
		snprintf(r->error, sizeof(r->error), "%.900s: was ended by signal %d", in->shown,
			 WTERMSIG(in->status));
		end_progress();
		complain("%s", r->error);
	}
	return EXIT_ERROR;
}

/* An input that no process is needed for. */
static void tell_other(const struct many *r, const struct input *in)
{
	if (in->same && !quiet)
		printf("%s: is %s %s, which is taken once\n", in->shown,
		       in->is_part ? "a part of" : "the same as", in->same->shown);
	else if (in->skipped && verbose)
		fprintf(r->json ? stderr : stdout, "%s: is no %s, skipped\n", in->shown,
			r->m->directories ? "directory of shards" : "checkpoint");
}

static void tell_input(struct many *r)
{
	static const struct one_result nothing = { .word = NULL };
	struct input *in = &r->inputs.items[r->head];
	int code = EXIT_ERROR;

	begin_entry(r);
	if (in->error) {
		end_progress();
		snprintf(r->error, sizeof(r->error), "%s", in->error);
		complain("%s", in->error);
	} else {
		pass_on(r);
		code = end_of(r, in);
	}
	end_entry(r, code);
	if (in->interrupted)
		return;
	in->told = true;
	r->told++;
	count_result(r, in->error ? &nothing : &r->results[r->head], code);
}

static void take_all(struct many *r)
{
	for (r->head = 0; r->head < r->inputs.count; r->head++) {
		struct input *in = &r->inputs.items[r->head];

		start_some(r);
		if (in->skipped || in->same) {
			end_progress();
			tell_other(r, in);
			continue;
		}
		if (!in->started && !in->error)
			return; /* it was stopped */
		tell_input(r);
		if (!r->json)
			fflush(stdout); /* whoever waits for it may see it */
		forward_signal(r);
		if (!r->m->edits && ferror(r->json ? r->json : stdout))
			r->stopped = true; /* nobody reads it */
	}
}

/* Print which inputs were finished before the signal. */
static void tell_interrupted(const struct many *r)
{
	const struct input *first = NULL;
	char all[32], done[32];

	for (size_t i = 0; i < r->inputs.count && !first; i++)
		if (needs_process(&r->inputs.items[i]) && !r->inputs.items[i].told)
			first = &r->inputs.items[i];
	if (!first)
		return;
	if (r->told)
		complain("interrupted: %s of %s inputs were finished, those before '%s'",
			 grouped(r->told, done), grouped(r->all, all), first->shown);
	else
		complain("interrupted: none of %s inputs was finished", grouped(r->all, all));
	for (const struct input *in = first; in < r->inputs.items + r->inputs.count; in++)
		if (in->told)
			complain("interrupted: '%s' was finished, too", in->shown);
}

bool parse_jobs(const struct command *cmd, uint32_t *jobs)
{
	uint64_t n = *jobs;

	if (many_jobs && (!parse_size(many_jobs, &n) || !n)) {
		wrong_usage(cmd, "%s: --jobs %.40s: wanted a number from 1 to %d", cmd->name,
			    many_jobs, MOST_JOBS);
		return false;
	}
	*jobs = n > MOST_JOBS ? MOST_JOBS : (uint32_t)n;
	return true;
}

static int run_all(struct many *r)
{
	int code = begin_json(r);
	size_t nbytes = (r->inputs.count + 1) * sizeof(*r->results);
	bool whole;

	if (code != EXIT_FINE)
		return code;
	r->results = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r->results == MAP_FAILED)
		no_memory();
	for (size_t i = 0; i < r->inputs.count; i++) {
		r->results[i].path = r->inputs.items[i].path;
		r->results[i].shown = r->inputs.items[i].shown;
		r->all += !r->inputs.items[i].skipped && !r->inputs.items[i].same;
	}
	r->caught = catch_signals();
	signal(SIGCHLD, SIG_DFL); /* who ignores it never hears how a process ended */
	take_all(r);
	end_progress();
	whole = r->told == r->all && !r->broken;
	if (*r->caught)
		tell_interrupted(r);
	else if (r->broken)
		complain("the document is not whole: one of its inputs ended too early");
	else if (whole)
		print_totals(r);
	if (end_json(r, whole) != EXIT_FINE)
		r->code = worse_code(r->code, EXIT_ERROR);
	munmap(r->results, nbytes);
	if (!whole)
		end_by_signal();
	return finish_output(r->code);
}

int run_many(const struct many_files *m, char **paths, size_t count)
{
	struct many *r = calloc(1, sizeof(*r));
	int code = EXIT_FINE;

	if (!r)
		no_memory();
	r->m = m;
	r->jobs = 1;
	r->inputs.directories_only = m->directories;
	if (!parse_jobs(m->cmd, &r->jobs))
		code = EXIT_USAGE;
	for (size_t i = 0; code == EXIT_FINE && i < count; i++)
		code = inputs_add(&r->inputs, paths[i]);
	if (code == EXIT_FINE && m->one_alone && r->inputs.count - r->inputs.skipped > 1)
		code = wrong_usage(m->cmd, "%s: %s", m->cmd->name, m->one_alone);
	if (code == EXIT_FINE && r->inputs.count == 1 && count == 1 &&
	    !strcmp(r->inputs.items[0].path, paths[0])) {
		code = m->one(paths[0], m->ctx);
	} else if (code == EXIT_FINE) {
		if (m->edits)
			inputs_find_same(&r->inputs);
		code = run_all(r);
	}
	inputs_clear(&r->inputs);
	free(r);
	return code;
}
