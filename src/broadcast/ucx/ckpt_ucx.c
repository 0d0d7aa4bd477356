/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt-ucx.so: ckpt broadcast over UCX, whose calls of 1.13 are all that it makes. It has nothing of
 * libckpt in it but a few declarations, and is called by one thread.
 *
 * What must stay true: no call waits for another process but quiesce(), which has a deadline. Until an
 * operation is done or quiet, UCX may still write to its memory. A message that is longer or shorter
 * than what is expected is an error. An assertion of UCX is an error, too: from then on it is not called any more.
 */
#include "base/clock.h"
#include "base/plugin_fail.h"
#include "broadcast/ucx/abort_guard.h"
#include "broadcast/ucx_plugin.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

enum { ENOUGH_FILES = 64 };

static const uint64_t ALL_BITS = UINT64_MAX;

struct operation {
	ucs_status_ptr_t request; /* NULL: the slot is free */
	bool receives;
	size_t len;
};

struct ckpt_ucx {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_address_t *address;
	size_t address_len;
	ucp_ep_h next;		  /* NULL: not connected, or closed */
	ucs_status_ptr_t closing; /* NULL: it is closed, or not begun */
	bool was_connected;
	bool is_forced;	     /* the endpoint can be closed without the other side */
	ucs_status_t failed; /* as the endpoint was told, or UCS_OK */
	bool is_quiet;
	bool has_aborted;
	struct ckpt_ucx *left; /* another one that was left alone */
	struct operation slots[CKPT_UCX_SLOTS];
};

static int fail_ucx(const char *what, ucs_status_t status, struct ckpt_error *err)
{
	return ckpt_plugin_fail(err, status == UCS_ERR_NO_MEMORY ? CKPT_E_NOMEM : CKPT_E_PEER,
				"UCX: %s: %.200s", what, ucs_status_string(status));
}

/* UCX does not say when it is files that it lacks: it opens some for each network and process beside it. */
static int fail_files(struct ckpt_error *err, int rc)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= ENOUGH_FILES)
		return rc;
	return ckpt_plugin_fail(err, CKPT_E_PEER, "UCX cannot begin: this process may open %llu files: raise that to %d (ulimit -n)",
				(unsigned long long)files.rlim_cur, ENOUGH_FILES);
}

/* ---- calls that may come to abort() ---- */

struct call {
	struct ckpt_ucx *u;
	unsigned slot;
	void *bytes;
	size_t len;
	uint64_t tag;
	struct ckpt_error *err;
	uint64_t deadline; /* of quiesce() */
	bool shares_host;  /* of connect() */
	const char *interfaces; /* of open(), as the next */
	bool any_rdma;
	int (*run)(struct call *);
	int rc;
};

static void run_call(void *ctx)
{
	struct call *c = ctx;

	c->rc = c->run(c);
}

static int guarded(struct call c)
{
	c.u->has_aborted = c.u->has_aborted || !ckpt_ucx_guard_run(run_call, &c);
	return c.u->has_aborted ? ckpt_plugin_fail(c.err, CKPT_E_PEER, "UCX has given up by an assertion of its own") : c.rc;
}

/* ---- opening ---- */

static void add_device(char *out, size_t size, const char *name, const char *port)
{
	size_t len = strlen(out);

	snprintf(out + len, size - len, "%s%.64s%s", len ? "," : "", name, port);
}

/* UCX gives a device for RDMA a name of its own, "mlx5_0:1": those in the folder PATH whose first port is up. */
static void add_rdma(char *out, size_t size, const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	char file[400], state[4];

	while (dir && (e = readdir(dir))) {
		FILE *port;

		if (e->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "/sys/class/infiniband/%.64s/ports/1/state", e->d_name);
		port = fopen(file, "re");
		if (port && fgets(state, sizeof(state), port) && state[0] == '4') /* "4: ACTIVE" */
			add_device(out, size, e->d_name, ":1");
		if (port)
			fclose(port);
	}
	if (dir)
		closedir(dir);
}

/* "ib0" -> "ib0,mlx5_0:1" */
static void list_devices(const char *interfaces, bool any_rdma, char *out, size_t size)
{
	char path[300];

	*out = '\0';
	for (const char *one = interfaces; *one; one += strspn(one, ",")) {
		size_t len = strcspn(one, ",");

		snprintf(path, sizeof(path), "%.*s", (int)len, one);
		add_device(out, size, path, "");
		snprintf(path, sizeof(path), "/sys/class/net/%.*s/device/infiniband", (int)len, one);
		if (!any_rdma)
			add_rdma(out, size, path);
		one += len;
	}
	if (any_rdma && access("/dev/infiniband", X_OK) == 0) /* else UCX warns that it cannot use them */
		add_rdma(out, size, "/sys/class/infiniband");
}

static int make_context(struct ckpt_ucx *u, const char *interfaces, bool any_rdma, struct ckpt_error *err)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES |
					      UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
				.features = UCP_FEATURE_TAG,
				.estimated_num_eps = 2 };
	const char *chosen = getenv("UCX_NET_DEVICES");
	char devices[1024];
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return fail_ucx("cannot read its settings (UCX_*)", status, err);
	if (interfaces && !(any_rdma && chosen && *chosen)) {
		list_devices(interfaces, any_rdma, devices, sizeof(devices));
		status = ucp_config_modify(config, "NET_DEVICES", devices);
	}
	if (status == UCS_OK)
		status = ucp_init(&params, config, &u->context);
	ucp_config_release(config);
	return status == UCS_OK ? 0
				: fail_ucx("no network that it can use (UCX_NET_DEVICES, UCX_TLS)",
					   status, err);
}

static int make_worker(struct ckpt_ucx *u, struct ckpt_error *err)
{
	ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucs_status_t status = ucp_worker_create(u->context, &params, &u->worker);

	if (status == UCS_OK)
		status = ucp_worker_get_address(u->worker, &u->address, &u->address_len);
	if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE)
		return fail_ucx("no memory that processes of one host can share; is /dev/shm full? (--transport tcp or UCX_TLS=tcp carries "
				"without)",
				status, err);
	if (status != UCS_OK)
		return fail_ucx("no network that it can use (UCX_NET_DEVICES, UCX_TLS)", status, err);
	if (u->address_len <= CKPT_UCX_MOST_ADDRESS)
		return 0;
	return ckpt_plugin_fail(
		err, CKPT_E_PEER,
		"UCX: an address of %zu bytes: UCX_NET_DEVICES=DEVICE lets it use fewer networks",
		u->address_len);
}

static void close_ucx(struct ckpt_ucx *u)
{
	static struct ckpt_ucx *left; /* for who looks for leaks */

	ckpt_ucx_guard_give_back();
	if (u->has_aborted || ((!u->is_quiet || u->failed != UCS_OK) && u->was_connected)) {
		u->left = left;
		left = u;
		return;
	}
	if (u->address)
		ucp_worker_release_address(u->worker, u->address);
	if (u->worker)
		ucp_worker_destroy(u->worker);
	if (u->context)
		ucp_cleanup(u->context);
	free(u);
}

static int run_open(struct call *c)
{
	int rc;

	if (!getenv("UCX_HANDLE_ERRORS"))
		ucs_global_opts_set_value("HANDLE_ERRORS", "none"); /* no list of calls where a rank has died */
	rc = make_context(c->u, c->interfaces, c->any_rdma, c->err);
	return rc < 0 ? rc : make_worker(c->u, c->err);
}

static int open_ucx(const char *interfaces, bool any_rdma, struct ckpt_ucx **out, struct ckpt_error *err)
{
	struct ckpt_ucx *u = calloc(1, sizeof(*u));
	int rc;

	*out = NULL;
	if (!u)
		return ckpt_plugin_fail(err, CKPT_E_NOMEM, "out of memory");
	ckpt_ucx_guard_take();
	rc = guarded((struct call){ u, .interfaces = interfaces, .any_rdma = any_rdma, .err = err, .run = run_open });
	if (rc < 0)
		rc = fail_files(err, rc);
	if (rc < 0)
		close_ucx(u);
	else
		*out = u;
	return rc;
}

static const void *get_address(const struct ckpt_ucx *u, size_t *len)
{
	*len = u->address_len;
	return u->address;
}

static void note_failure(void *ctx, ucp_ep_h ep, ucs_status_t status)
{
	(void)ep;
	((struct ckpt_ucx *)ctx)->failed = status;
}

static int run_connect(struct call *c)
{
	struct ckpt_ucx *u = c->u;
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = c->bytes,
		/* with it, memory that processes share is left out */
		.err_mode = c->shares_host ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = { note_failure, u },
	};
	ucs_status_t status;

	u->is_forced = !c->shares_host;
	status = ucp_ep_create(u->worker, &params, &u->next);
	u->was_connected = status == UCS_OK;
	if (status == UCS_OK)
		return 0;
	return fail_ucx(c->shares_host ? "cannot reach the next rank, which is on this host, but shares no memory: another user's, or in another "
					 "container? (--transport tcp or UCX_TLS=tcp carries without)"
				       : "cannot reach the next rank (UCX_NET_DEVICES, UCX_TLS)",
			status, c->err);
}

static int connect_next(struct ckpt_ucx *u, const void *address, size_t len, bool shares_host,
			struct ckpt_error *err)
{
	return guarded((struct call){ u, .bytes = (void *)address, .len = len, .shares_host = shares_host, .err = err,
				      .run = run_connect });
}

/* ---- carrying ---- */

static int keep(struct ckpt_ucx *u, unsigned slot, ucs_status_ptr_t request, bool receives,
		size_t len, const char *what, struct ckpt_error *err)
{
	if (UCS_PTR_IS_ERR(request))
		return fail_ucx(what, UCS_PTR_STATUS(request), err);
	u->slots[slot] = (struct operation){ request, receives, len };
	return 0;
}

/* All of them give a request, so that each ends in the same way. */
static const ucp_request_param_t always = { .op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL };

static int run_send(struct call *c)
{
	return keep(c->u, c->slot, ucp_tag_send_nbx(c->u->next, c->bytes, c->len, c->tag, &always), false, c->len,
		    "cannot send to the next rank", c->err);
}

static int begin_send(struct ckpt_ucx *u, unsigned slot, const void *bytes, size_t len,
		      uint64_t tag, struct ckpt_error *err)
{
	return guarded((struct call){ u, slot, (void *)bytes, len, tag, err, .run = run_send });
}

static int run_receive(struct call *c)
{
	return keep(c->u, c->slot, ucp_tag_recv_nbx(c->u->worker, c->bytes, c->len, c->tag, ALL_BITS, &always), true,
		    c->len, "cannot receive", c->err);
}

static int begin_receive(struct ckpt_ucx *u, unsigned slot, void *bytes, size_t len, uint64_t tag,
			 struct ckpt_error *err)
{
	return guarded((struct call){ u, slot, bytes, len, tag, err, .run = run_receive });
}

static int run_flush(struct call *c)
{
	ucs_status_ptr_t request = ucp_worker_flush_nbx(c->u->worker, &always);

	return keep(c->u, c->slot, request, false, 0, "the last bytes do not leave", c->err);
}

static int begin_flush(struct ckpt_ucx *u, unsigned slot, struct ckpt_error *err)
{
	return guarded((struct call){ u, slot, .err = err, .run = run_flush });
}

static int run_progress(struct call *c)
{
	return ucp_worker_progress(c->u->worker) != 0;
}

static bool progress(struct ckpt_ucx *u)
{
	return guarded((struct call){ u, .run = run_progress }) > 0;
}

static int run_test(struct call *c)
{
	struct ckpt_ucx *u = c->u;
	struct operation *o = &u->slots[c->slot];
	ucp_tag_recv_info_t info = { .length = o->len };
	ucs_status_t status = !o->request   ? UCS_OK
			      : o->receives ? ucp_tag_recv_request_test(o->request, &info)
					    : ucp_request_check_status(o->request);

	if (status == UCS_INPROGRESS)
		return u->failed == UCS_OK ? 0
					   : fail_ucx("the connection to the next rank is lost",
						      u->failed, c->err);
	if (o->request)
		ucp_request_free(o->request);
	o->request = NULL;
	if (status != UCS_OK)
		return fail_ucx(o->receives ? "nothing comes from the rank before this one"
					    : "the connection to the next rank is lost",
				status, c->err);
	return info.length == o->len ? 1
				     : ckpt_plugin_fail(c->err, CKPT_E_PEER,
							"UCX: %zu bytes came, %zu were expected",
							info.length, o->len);
}

static int test(struct ckpt_ucx *u, unsigned slot, struct ckpt_error *err)
{
	return guarded((struct call){ u, slot, .err = err, .run = run_test });
}

/* ---- what it uses ---- */

/* NAME is of the form "1:tcp/eth0.0". */
static void add_lane(const char *name, size_t len, char *out, size_t size)
{
	const char *colon = memchr(name, ':', len);
	size_t used = strlen(out), skip = colon ? (size_t)(colon + 1 - name) : 0;
	char one[100];

	snprintf(one, sizeof(one), "%.*s", (int)(len - skip), name + skip);
	if (strrchr(one, '.'))
		*strrchr(one, '.') = '\0';
	if (!strstr(out, one))
		snprintf(out + used, size - used, "%s%s", used ? ", " : "", one);
}

/* UCX tells a person only: "#   lane[0]:  1:tcp/eth0.0 md[1] -> ..." */
static void describe(const struct ckpt_ucx *u, char *out, size_t size)
{
	char *text = NULL, *line, *rest;
	size_t text_size;
	FILE *file = u->next && !u->has_aborted ? open_memstream(&text, &text_size) : NULL;

	*out = '\0';
	if (!file)
		return;
	ucp_ep_print_info(u->next, file);
	if (fclose(file) != 0 || !text) {
		free(text);
		return;
	}
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *at = strstr(line, "lane["), *name = at ? strstr(at, "]:") : NULL;

		if (!name)
			continue;
		name += 2 + strspn(name + 2, " ");
		add_lane(name, strcspn(name, " "), out, size);
	}
	free(text);
}

/* ---- the end ---- */

static bool wait_for(struct ckpt_ucx *u, ucs_status_ptr_t request, uint64_t deadline)
{
	while (request && ucp_request_check_status(request) == UCS_INPROGRESS) {
		if (ckpt_now_nsec() > deadline)
			return false;
		ucp_worker_progress(u->worker);
	}
	if (request)
		ucp_request_free(request);
	return true;
}

static bool end_operations(struct ckpt_ucx *u, uint64_t deadline)
{
	for (unsigned i = 0; i < CKPT_UCX_SLOTS; i++)
		if (u->slots[i].request)
			ucp_request_cancel(u->worker, u->slots[i].request);
	for (unsigned i = 0; i < CKPT_UCX_SLOTS; i++) {
		if (!wait_for(u, u->slots[i].request, deadline))
			return false;
		u->slots[i].request = NULL;
	}
	return true;
}

/*
 * Once: the endpoint is UCX's from then on, whatever it answers. Who closes with operations under way
 * ends them, where that can be done without the other side.
 */
static void begin_closing(struct ckpt_ucx *u, bool works)
{
	ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS };

	param.flags = (works || u->failed != UCS_OK) && u->is_forced ? UCP_EP_CLOSE_FLAG_FORCE : 0;
	u->closing = ucp_ep_close_nbx(u->next, &param);
	u->next = NULL;
	if (UCS_PTR_IS_ERR(u->closing))
		u->closing = NULL; /* it is closed all the same */
}

static int run_quiesce(struct call *c)
{
	struct ckpt_ucx *u = c->u;
	uint64_t deadline = c->deadline;
	bool works = false;

	for (unsigned i = 0; i < CKPT_UCX_SLOTS; i++)
		works |= u->slots[i].request != NULL;
	if (u->next && works && !u->is_forced)
		return false;
	if (u->next)
		begin_closing(u, works);
	if (!wait_for(u, u->closing, deadline))
		return false;
	u->closing = NULL;
	u->is_quiet = end_operations(u, deadline);
	return u->is_quiet;
}

static bool quiesce(struct ckpt_ucx *u, uint64_t nsec)
{
	return guarded((struct call){ u, .deadline = ckpt_now_nsec() + nsec, .run = run_quiesce }) > 0;
}

/* The linker's name of it, and no other, is seen from outside. */
ckpt_ucx_get ckpt_ucx_get_here __asm__(CKPT_UCX_GET_NAME) __attribute__((visibility("default")));

int ckpt_ucx_get_here(int version, const struct ckpt_ucx_ops **out, struct ckpt_error *err)
{
	static const struct ckpt_ucx_ops ops = {
		.open = open_ucx,
		.address = get_address,
		.connect = connect_next,
		.send = begin_send,
		.receive = begin_receive,
		.flush = begin_flush,
		.progress = progress,
		.test = test,
		.describe = describe,
		.quiesce = quiesce,
		.close = close_ucx,
	};

	*out = NULL;
	if (version != CKPT_UCX_PLUGIN_VERSION)
		return ckpt_plugin_fail(err, CKPT_E_UNSUPPORTED,
					"ckpt-ucx.so is of another version of ckpt: %d, wanted %d",
					CKPT_UCX_PLUGIN_VERSION, version);
	*out = &ops;
	return 0;
}
