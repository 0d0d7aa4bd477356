/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress as lines of JSON, and the text file for Prometheus: https://prometheus.io/docs/instrumenting/exposition_formats.
 *
 * What must stay true: each line of JSON is written by one call, so that the lines of several programs on one stream do not mix.
 * The file appears as a whole, under its final name: node_exporter may read it at any time, and takes names that end in .prom.
 */
#include "broadcast_watch.h"

#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool as_json;
static uint64_t arrived, all;
static double began; /* 0: not yet */

static const double EVERY = 1; /* seconds */

void watch_as_json(void)
{
	as_json = true;
}

static void put_line(json_t *line)
{
	char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);

	json_decref(line);
	if (!text)
		no_memory();
	fprintf(stderr, "%s\n", text);
	fflush(stderr);
	free(text);
}

static json_t *new_line(const char *phase, double now, double rate)
{
	return json_pack("{s:i,s:s,s:s,s:s,s:o,s:o,s:f,s:f}", "ckpt_json", JSON_VERSION, "command", "broadcast", "event",
			 "progress", "phase", phase, "done", json_u64(arrived), "total", json_u64(all), "rate", rate, "seconds",
			 now - began);
}

void watch_progress(void *ctx, uint64_t done, uint64_t total)
{
	static double last;
	static uint64_t before;
	double now = seconds();

	arrived = done;
	all = total;
	if (!as_json) {
		show_progress(ctx, done, total);
		return;
	}
	if (!began)
		began = last = now;
	else if (now - last < EVERY && done != total)
		return;
	put_line(new_line(done == total ? "finish" : "carry", now, now > last ? (double)(done - before) / (now - last) : 0));
	last = now;
	before = done;
}

void watch_end(const struct ckpt_broadcast_report *r, const struct ckpt_error *err)
{
	double now = seconds();
	char text[1400];
	json_t *line;

	if (!as_json || r->rank != 0)
		return;
	began = began ? began : now;
	all = r->nbytes;
	arrived = r->code || r->reused ? arrived : r->nbytes;
	line = new_line(r->code ? "failed" : "done", now, r->seconds > 0 ? (double)arrived / r->seconds : 0);
	json_object_set_new(line, "seconds", json_real(r->seconds));
	json_object_set_new(line, "code", json_integer(r->code));
	json_object_set_new(line, "reused", json_boolean(r->reused));
	if (err->status)
		json_set_name(line, "error", ckpt_error_format(err, text, sizeof(text)));
	put_line(line);
}

/* ---- metrics ---- */

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP ckpt_broadcast_%s %s\n# TYPE ckpt_broadcast_%s %s\n", name, help, name, type);
}

static void put_number(FILE *out, const char *name, const char *type, const char *help, double value)
{
	char number[40];

	put_head(out, name, type, help);
	fprintf(out, "ckpt_broadcast_%s %s\n", name, number_text(number, sizeof(number), "%.17g", value));
}

static void put_label(FILE *out, const char *name, const char *value, char behind)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++)
		if (*value == '\n')
			fputs("\\n", out);
		else if (*value == '\\' || *value == '"')
			fprintf(out, "\\%c", *value);
		else
			fputc((unsigned char)*value < 0x80 ? *value : '?', out); /* values have to be UTF-8 */
	fprintf(out, "\"%c", behind);
}

static void put_metrics(FILE *out, const struct ckpt_broadcast_report *r)
{
	uint64_t carried = r->code ? arrived : r->reused ? 0 : r->nbytes;

	put_number(out, "bytes_total", "counter", "Bytes that the last broadcast has carried to all ranks, 0 if they had them.",
		   (double)carried);
	put_number(out, "source_bytes", "gauge", "Size of its source, 0 if that could not be looked at.", (double)r->nbytes);
	put_number(out, "source_files", "gauge", "Files of its source.", r->files);
	put_number(out, "duration_seconds", "gauge", "How long it took, from the meeting of the ranks to the last name.",
		   r->seconds);
	put_number(out, "ranks", "gauge", "Processes that took part.", r->world_size);
	put_number(out, "reused", "gauge", "1 if all nodes had the copy already.", r->reused);
	put_number(out, "exit_status", "gauge", "0 is success; see docs/errors.md.", r->code);
	put_number(out, "end_timestamp_seconds", "gauge", "When it ended, in seconds since 1970.", (double)time(NULL));
	put_head(out, "info", "gauge", "How it was carried.");
	fputs("ckpt_broadcast_info{", out);
	put_label(out, "transport", r->transport, ',');
	put_label(out, "launcher", r->launcher, ',');
	put_label(out, "host", r->host, ',');
	put_label(out, "version", ckpt_version(), '}');
	fputs(" 1\n", out);
}

static int metrics_failed(const char *path, const char *temp, int error)
{
	if (temp)
		unlink(temp);
	complain("broadcast: --metrics %s: cannot write it: %s", path, errno_text(error));
	return EXIT_ERROR;
}

int write_metrics(const char *path, const struct ckpt_broadcast_report *r)
{
	const char *slash = strrchr(path, '/');
	struct stat st;
	FILE *out;
	char *temp;
	int fd, error = 0;

	if (r->rank != 0)
		return EXIT_FINE;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return metrics_failed(path, NULL, S_ISDIR(st.st_mode) ? EISDIR : EEXIST);
	if (asprintf(&temp, "%.*s.%s.%ld.tmp", slash ? (int)(slash + 1 - path) : 0, path, slash ? slash + 1 : path,
		     (long)getpid()) < 0)
		no_memory();
	unlink(temp); /* of a process that was killed, with this one's number */
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out) {
		int code = metrics_failed(path, fd < 0 ? NULL : temp, errno);

		if (fd >= 0)
			close(fd);
		free(temp);
		return code;
	}
	errno = 0;
	put_metrics(out, r);
	if (ferror(out) || fflush(out) != 0)
		error = errno ? errno : EIO;
	if (fclose(out) != 0 && !error)
		error = errno;
	if (!error && rename(temp, path) < 0)
		error = errno;
	if (error)
		metrics_failed(path, temp, error);
	free(temp);
	return error ? EXIT_ERROR : EXIT_FINE;
}
