/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint that no file has yet: made object by object, then saved, edited or walked like any
 * other (ckpt_save() writes a torch.save file, or what `format` says).
 *
 *	ckpt_builder_new(&b, &err);
 *	dict = ckpt_build_dict(b);
 *	storage = ckpt_build_storage(b, "float32", "cpu", floats, sizeof(floats));
 *	ckpt_build_put(b, dict, ckpt_build_str(b, "w", 1), ckpt_build_tensor(b, storage, &view));
 *	rc = ckpt_builder_finish(b, dict, &model, &err);
 *
 * One node is one Python object: a node that is put in two places is shared, as pickle shares it,
 * and tensors over one storage share their bytes. Functions return NULL, or false, where there is
 * no memory or an argument is wrong, and take a NULL among their arguments for the same, so that
 * the check of ckpt_builder_finish() is enough. A builder is for one thread.
 */
#ifndef CKPT_BUILD_H
#define CKPT_BUILD_H

#include <ckpt/node.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ckpt_builder;

/* Returns 0 or CKPT_E_NOMEM. *OUT is given to ckpt_builder_finish() or ckpt_builder_free(). */
CKPT_API int ckpt_builder_new(struct ckpt_builder **out, struct ckpt_error *err);

/* Give up. NULL is allowed. */
CKPT_API void ckpt_builder_free(struct ckpt_builder *b);

/* ---- values; texts and bytes are copied ---- */

CKPT_API const struct ckpt_node *ckpt_build_none(struct ckpt_builder *b);
CKPT_API const struct ckpt_node *ckpt_build_bool(struct ckpt_builder *b, bool value);
CKPT_API const struct ckpt_node *ckpt_build_int(struct ckpt_builder *b, int64_t value);
/* An int of any size: two's complement, lowest byte first. */
CKPT_API const struct ckpt_node *ckpt_build_long(struct ckpt_builder *b, const void *bytes,
						 size_t len);
CKPT_API const struct ckpt_node *ckpt_build_float(struct ckpt_builder *b, double value);
CKPT_API const struct ckpt_node *ckpt_build_complex(struct ckpt_builder *b, double real,
						    double imag);
/* UTF-8, as a STR of <ckpt/node.h>. */
CKPT_API const struct ckpt_node *ckpt_build_str(struct ckpt_builder *b, const char *text,
						size_t len);
/*
 * The same for a text that Python keeps once for all that use it (sys.intern()), as it does with
 * names in programs: equal ones are one object, also with those that torch itself writes.
 */
CKPT_API const struct ckpt_node *ckpt_build_interned(struct ckpt_builder *b, const char *text,
						     size_t len);
CKPT_API const struct ckpt_node *ckpt_build_bytes(struct ckpt_builder *b, const void *bytes,
						  size_t len);
/*
 * Python keeps equal bytes of up to one byte once, and so does ckpt_build_bytes(). This is for an object that is not that one:
 * (5).to_bytes(1, "big").
 */
CKPT_API const struct ckpt_node *ckpt_build_distinct_bytes(struct ckpt_builder *b, const void *bytes,
							   size_t len);
CKPT_API const struct ckpt_node *ckpt_build_bytearray(struct ckpt_builder *b, const void *bytes,
						      size_t len);

/* ---- containers ---- */

CKPT_API const struct ckpt_node *ckpt_build_tuple(struct ckpt_builder *b,
						  const struct ckpt_node *const *items,
						  uint32_t count);
/* ITEMS in the order in which Python would go through the set. */
CKPT_API const struct ckpt_node *ckpt_build_frozenset(struct ckpt_builder *b,
						      const struct ckpt_node *const *items,
						      uint32_t count);
CKPT_API struct ckpt_node *ckpt_build_set(struct ckpt_builder *b);
CKPT_API struct ckpt_node *ckpt_build_list(struct ckpt_builder *b);
CKPT_API struct ckpt_node *ckpt_build_dict(struct ckpt_builder *b);
CKPT_API struct ckpt_node *ckpt_build_ordered_dict(struct ckpt_builder *b);

/* Another item of a list or set of this builder, or of an object that was called for: object.append(item). */
CKPT_API bool ckpt_build_append(struct ckpt_builder *b, struct ckpt_node *container,
				const struct ckpt_node *item);

/*
 * Another key, which is not there yet, of a dict or OrderedDict of this builder, or of an object that was
 * called for: object[key] = value.
 */
CKPT_API bool ckpt_build_put(struct ckpt_builder *b, struct ckpt_node *mapping,
			     const struct ckpt_node *key, const struct ckpt_node *value);

/* ---- objects ---- */

/* A class, a function or a constant, by the names of Python 3, which have no line feeds; the same node each time. */
CKPT_API const struct ckpt_node *ckpt_build_global(struct ckpt_builder *b, const char *module,
						   const char *name);

/* CALLABLE(*ARGS), where ARGS is a tuple. */
CKPT_API struct ckpt_node *ckpt_build_call(struct ckpt_builder *b, const struct ckpt_node *callable,
					   const struct ckpt_node *args);

/*
 * CLASS.__new__(CLASS, *ARGS), as copyreg has it for most classes of Python: what the class does when it
 * is called is not done.
 */
CKPT_API struct ckpt_node *ckpt_build_new(struct ckpt_builder *b, const struct ckpt_node *class_,
					  const struct ckpt_node *args);

/* What the object that was called for gets as its state; of an OrderedDict: its attributes. */
CKPT_API bool ckpt_build_set_state(struct ckpt_builder *b, struct ckpt_node *object,
				   const struct ckpt_node *state);

/* ---- tensors ---- */

/*
 * NBYTES bytes of DTYPE ("float32", "bfloat16" ...) on DEVICE ("cpu", "cuda:0"), which are borrowed
 * until the model is closed.
 */
CKPT_API const struct ckpt_node *ckpt_build_storage(struct ckpt_builder *b, const char *dtype,
						    const char *device, const void *bytes,
						    uint64_t nbytes);

/* The same for bytes that are read when they are needed; `close` as in ckpt_open_reader(). */
CKPT_API const struct ckpt_node *ckpt_build_storage_from(struct ckpt_builder *b, const char *dtype,
							 const char *device,
							 const struct ckpt_reader_options *reader);

/*
 * What is made has bytes of MODEL: a new file of it gets no wider mode than an edit of MODEL would,
 * so that nobody can read there what he cannot read here. False if an argument is NULL.
 */
CKPT_API bool ckpt_build_has_bytes_of(struct ckpt_builder *b, const struct ckpt_model *model);

/* How a tensor lies in its storage, in items. */
struct ckpt_tensor_view {
	size_t size;
	const uint64_t *shape;
	const uint64_t *stride; /* NULL: contiguous, as torch.empty() makes it */
	uint64_t offset;
	uint32_t ndim; /* at most 64 */
	bool requires_grad;
	uint8_t reserved[3];
	const char *dtype; /* NULL: that of the storage */
};
#define CKPT_TENSOR_VIEW_INIT \
	{ \
		.size = sizeof(struct ckpt_tensor_view) \
	}

/* A tensor that lies within the bytes of STORAGE. */
CKPT_API const struct ckpt_node *ckpt_build_tensor(struct ckpt_builder *b,
						   const struct ckpt_node *storage,
						   const struct ckpt_tensor_view *view);

/* torch.nn.Parameter(tensor, requires_grad) */
CKPT_API const struct ckpt_node *ckpt_build_parameter(struct ckpt_builder *b,
						      const struct ckpt_node *tensor,
						      bool requires_grad);

/*
 * Make the model, whose root is ROOT, and free B, also on failure. Returns 0; CKPT_E_ARG with what
 * was wrong first; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_builder_finish(struct ckpt_builder *b, const struct ckpt_node *root,
				 struct ckpt_model **out, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
